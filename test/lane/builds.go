package lane

import "time"

// builds are the minutes that artifacts take on an idle machine with two processors that has never built them, and that
// has run `make test`. Those that are not listed take less than a minute.
var builds = map[string]float64{
	"console-host-earlier":         1,
	"fips-images":                  4,
	"freeze-image":                 5,
	"previous":                     8,
	"programs/kubernetes-1.30":     3,
	"programs/kubernetes-1.31":     3,
	"programs/kubernetes-1.32":     3,
	"programs/kubernetes-1.33":     3,
	"programs/kubernetes-1.34":     3,
	"programs/kubernetes-1.35":     3,
	"programs/kubernetes-1.36":     3,
	"programs/network-policies":    2,
	"programs/olm":                 3,
	"programs/olm-v1":              4,
	"programs/opm":                 2,
	"programs/prometheus-operator": 12,
	"programs/storage-tests":       4,
	"topolvm":                      3,
}

// Building returns the time that the artifacts which an item needs take, without those that were built before.
func Building(i Item, built func(need string) bool) time.Duration {
	var minutes float64
	for _, need := range i.Needs {
		if !built(need) {
			minutes += builds[need]
		}
	}
	return time.Duration(minutes * float64(time.Minute))
}
