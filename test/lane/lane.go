// Package lane has the table of all items: what the tests of the repository are divided into. `make test` runs the items
// of Core, `make check` those of Checks and then as many others as fit before a deadline, and `make test-long` all.
// Which items run, and in which order, depends on the tree alone: on the table, the files that an item covers, and the
// results in results.tsv. hack/dev runs the items.
package lane

import (
	"os"
	"strconv"
	"testing"
)

// CaseEnv is the environment variable with the number of the case that Cases selects with -short. An item for a flavor
// of host has the place of the flavor in the lab's list. The default is 0.
const CaseEnv = "LVMS_CASE"

// Cases returns all cases, or with -short one of them: a different one on each flavor of host.
func Cases[T any](all ...T) []T {
	return cases(testing.Short(), os.Getenv(CaseEnv), all)
}

func cases[T any](short bool, number string, all []T) []T {
	if !short || len(all) == 0 {
		return all
	}
	at, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		at = 0
	}
	at %= uint64(len(all))
	return all[at : at+1]
}
