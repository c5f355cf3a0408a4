"""`python -m docs.site.demo_pictures`: draw what each act of the demo prints, in docs/pictures."""

import asyncio
import io
import re
import tempfile
from pathlib import Path

from phalanx.observe.logs import configure_logs
from phalanx_simulator.demos import placed_gang, training_jobs, waiting_gang
from phalanx_simulator.demos.environment import set_up
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

PICTURES = Path(__file__).resolve().parents[1] / "pictures"
COLUMNS = 100

FORMAT = re.sub(r"@font-face {{.*?}}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Without fonts of other sites."""


async def draw(folder: Path) -> None:
    """Play each act as `make demo` does. The console is no terminal: only last frames are printed."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    async with set_up("embedded", console=console, folder=folder, with_pod_by_pod=True) as stage:
        for number, act in enumerate((training_jobs, placed_gang, waiting_gang), start=1):
            await stage.phalanx.clear()
            console.export_text()  # empties the record
            console.print(f"[bold]{await act.play(stage)}[/]")
            picture = console.export_svg(title=act.TITLE, code_format=FORMAT, unique_id=f"demo-{number}")
            (PICTURES / f"demo-{number}.svg").write_text(picture)


def main() -> None:
    """Draw all acts."""
    with tempfile.TemporaryDirectory() as folder:
        configure_logs(stream=io.StringIO())
        asyncio.run(draw(Path(folder)))


if __name__ == "__main__":
    main()
