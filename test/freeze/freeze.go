//go:build freeze

// Package freeze freezes a running process at a chosen point, for the test that the process is ended and started again.
// It is in a program that is built with the files of test/freeze/overlay, which let package sync call it.
//
// A point is where the product releases a lock. There, the lock is never released (mode lock), or it is released and
// the goroutine does not go on (mode goroutine).
package freeze

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	address = ":19999"
	module  = "github.com/lvm-storage/lvm-operator/"
	// own are the packages of the test.
	own = module + "test/"
	// slots is the size of the table of points; depth is how many callers are looked at.
	slots = 1 << 14
	depth = 24
)

// point is where a lock is released. It is never changed after it is stored, but for hits.
type point struct {
	pcs  [depth]uintptr
	Name string
	// Lock is true if the lock is the product's, not that of a library.
	Lock bool
	hits atomic.Uint64
}

var (
	table  [slots]atomic.Pointer[point]
	target atomic.Pointer[request]
	frozen atomic.Pointer[event]
)

type request struct{ name, mode string }

// event is what was frozen.
type event struct {
	Point, Mode string
	At          time.Time
}

func init() {
	mux := http.NewServeMux()
	mux.HandleFunc("/points", servePoints)
	mux.HandleFunc("/freeze", serveFreeze)
	mux.HandleFunc("/frozen", serveFrozen)
	go func() { fmt.Fprintln(os.Stderr, http.ListenAndServe(address, mux)) }()
	sync.BeforeUnlock.Store(&hook)
}

// hook is called before a lock is released. It must not use a lock itself.
var hook = func() sync.Fate {
	found := here()
	if found == nil || found.Name == "" {
		return sync.Unlocks
	}
	found.hits.Add(1)
	wanted := target.Load()
	if wanted == nil || wanted.name != found.Name || !target.CompareAndSwap(wanted, nil) {
		return sync.Unlocks
	}
	frozen.Store(&event{Point: found.Name, Mode: wanted.mode, At: time.Now()})
	if wanted.mode == "lock" {
		return sync.NeverUnlocks
	}
	return sync.UnlocksAndWaits
}

// here returns the point of the caller of hook, or nil if the table is full.
func here() *point {
	var pcs [depth]uintptr
	// Skipped are Callers, here, hook, sync.fate, and the method of package sync.
	n := runtime.Callers(5, pcs[:])
	hash := uintptr(14695981039346656037)
	for _, pc := range pcs[:n] {
		hash = (hash ^ pc) * 1099511628211
	}
	for i := range uintptr(64) {
		slot := &table[(hash>>16+i)%slots]
		found := slot.Load()
		if found == nil {
			slot.CompareAndSwap(nil, describe(pcs, n))
			found = slot.Load()
		}
		if found.pcs == pcs {
			return found
		}
	}
	return nil
}

// describe returns a point with the first function of the product among the callers as its name.
func describe(pcs [depth]uintptr, n int) *point {
	p := &point{pcs: pcs}
	frames := runtime.CallersFrames(pcs[:n])
	for i := 0; ; i++ {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "sync.(*RWMutex)") {
			return p
		}
		if name, isProduct := strings.CutPrefix(frame.Function, module); strings.HasPrefix(frame.Function, own) {
			return p
		} else if isProduct {
			p.Name, p.Lock = fmt.Sprintf("%s:%d", name, frame.Line), i == 0
			return p
		}
		if !more {
			return p
		}
	}
}

func servePoints(w http.ResponseWriter, _ *http.Request) {
	type row struct {
		Lock bool
		Hits uint64
	}
	rows := map[string]row{}
	for i := range table {
		if p := table[i].Load(); p != nil && p.Name != "" {
			r := rows[p.Name]
			rows[p.Name] = row{r.Lock || p.Lock, r.Hits + p.hits.Load()}
		}
	}
	_ = json.NewEncoder(w).Encode(rows)
}

func serveFreeze(_ http.ResponseWriter, r *http.Request) {
	target.Store(&request{name: r.FormValue("point"), mode: r.FormValue("mode")})
}

func serveFrozen(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(frozen.Load())
}
