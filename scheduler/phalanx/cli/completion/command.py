"""`phalanx completion SHELL`: print a completion script."""

from typing import Final, Literal

from phalanx.cli.exits import Exit

# Each script asks `phalanx __complete` with the words so far, and shows what it prints: for each candidate a
# line with the word, a tab, and its description. The line `:files` asks for names of files as well.

_BASH: Final = """\
# bash completion for phalanx: source <(phalanx completion bash)
_phalanx() {
    local cur words cword
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n =: cur words cword
    else
        cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    fi
    local line
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
        else
            COMPREPLY+=("${line%%$'\\t'*}")
        fi
    done < <("${words[0]}" __complete "${words[@]:1:cword}" 2>/dev/null)
}
complete -F _phalanx phalanx
"""

_ZSH: Final = """\
#compdef phalanx
# zsh completion for phalanx: source <(phalanx completion zsh)
_phalanx() {
    local line word text
    local -a found
    for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ $line == :files ]]; then
            _files
        elif [[ -n $line ]]; then
            word=${line%%$'\\t'*} text=${line#*$'\\t'}
            found+=("${word//:/\\\\:}:$text")
        fi
    done
    (( $#found )) && _describe phalanx found
}
compdef _phalanx phalanx
"""

_FISH: Final = """\
# fish completion for phalanx: phalanx completion fish | source
function __phalanx_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c phalanx -f -a '(__phalanx_complete)'
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script of a shell. It completes commands, options and the names in the cluster.

    `source <(phalanx completion bash)` in ~/.bashrc, the same with zsh in ~/.zshrc, or
    `phalanx completion fish | source` in the configuration of fish. For `kubectl phalanx`, kubectl asks the
    program kubectl_complete-phalanx, which is installed with this one.

    Parameters
    ----------
    shell
        The shell.
    """
    print(_SCRIPTS[shell], end="")
    return Exit.OK
