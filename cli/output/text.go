package output

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Separator is between the messages in a reason of a volume group.
const Separator = "; "

// OneLine returns a message as one line.
func OneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

// CountOf returns a number with the noun for one, or for several.
func CountOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// units are the units of sizes for people.
var units = []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// SizeOf returns a size with at most one decimal, rounded down, in the largest unit of which there is at least one; ""
// for nil.
func SizeOf(q *resource.Quantity) string {
	if q == nil {
		return ""
	}
	size := float64(q.Value())
	unit := ""
	for _, next := range units {
		if size < 1024 {
			break
		}
		size /= 1024
		unit = next
	}
	return strconv.FormatFloat(math.Floor(size*10)/10, 'f', -1, 64) + unit
}

// BytesText returns a number of bytes for people, or "" if it is not known.
func BytesText(n int64) string {
	if n == 0 {
		return ""
	}
	return SizeOf(resource.NewQuantity(n, resource.BinarySI))
}

// TimeText returns a time for people, or "" if it is not known.
func TimeText(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
