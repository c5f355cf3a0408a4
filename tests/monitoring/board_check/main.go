// Reads Grafana boards as strictly as Grafana's published schema: no unknown field, no missing one, no wrong type.
//
// Usage: board_check FILE... It prints one line for each error, and exits with 1 if there is one.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	failed := false
	for _, path := range os.Args[1:] {
		raw, err := os.ReadFile(path)
		board := dashboard.Dashboard{}
		if err == nil {
			err = board.UnmarshalJSONStrict(raw)
		}
		if isNone(err) {
			err = board.Validate()
		}
		if !isNone(err) {
			fmt.Printf("%s: %v\n", path, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// The strict reader returns an empty list of errors if there are none.
func isNone(err error) bool {
	return err == nil || err.Error() == ""
}
