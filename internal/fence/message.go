package fence

import (
	"fmt"
	"regexp"
	"strconv"
)

// Message says in the status of a LogicalVolume how far its copy from a source on a node is, in bytes. Before the size
// is known, it is 0. BytesOf reads the message.
func Message(source, node string, copied, compared, size uint64) string {
	if size == 0 {
		return fmt.Sprintf("the data of %s is copied from node %s: it waits for other copies, or for the source",
			source, node)
	}
	done, what := copied, "copied"
	if compared > 0 || copied == size {
		done, what = compared, "copied, and compared"
	}
	return fmt.Sprintf("the data of %s is %s from node %s: %d of %d MiB (%d %%)", source, what, node, done>>20,
		size>>20, done*100/size)
}

var progressPattern = regexp.MustCompile(`^the data of \S+ is copied(, and compared)? from node \S+: ` +
	`([0-9]{1,12}) of ([0-9]{1,12}) MiB `)

// BytesOf returns how many bytes a copy has copied and compared, from its Message. It is 0 for any other text, such as
// an error of the copy.
func BytesOf(message string) int64 {
	found := progressPattern.FindStringSubmatch(message)
	if found == nil {
		return 0
	}
	// The pattern permits numbers that fit only.
	done, _ := strconv.ParseInt(found[2], 10, 64)
	size, _ := strconv.ParseInt(found[3], 10, 64)
	if found[1] != "" {
		done += size
	}
	return done << 20
}
