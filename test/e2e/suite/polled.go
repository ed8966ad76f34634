package suite

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/onsi/gomega"

	"github.com/lvm-storage/lvm-operator/test/story"
)

// pollingInterval is how often Eventually and Consistently call a function by default. Most calls start a program on a
// node or kubectl, which take processor time and the lock of LVM from the product.
const pollingInterval = time.Second

// readTimeout is the time limit for a read of a function that Consistently calls.
const readTimeout = 2 * time.Minute

// polling is gomega with another Eventually and Consistently: if a polled function calls Expect of the package gomega,
// for example in Cluster.Run, a failure does not end the spec. Eventually calls the function again. Consistently does
// too, because a read that failed shows no change.
type polling struct{ gomega.Gomega }

// setUpGomega sets up the functions of the package gomega, which call end for a failure.
func setUpGomega(end func(message string, callerSkip ...int)) {
	g := gomega.NewGomega(func(message string, callerSkip ...int) { fail(end, message, callerSkip...) })
	g.SetDefaultEventuallyTimeout(story.Soon)
	g.SetDefaultEventuallyPollingInterval(pollingInterval)
	g.SetDefaultConsistentlyPollingInterval(pollingInterval)
	gomega.Default = polling{g}
}

// Inner returns gomega's own implementation, which gomega needs of a wrapper.
func (p polling) Inner() gomega.Gomega { return p.Gomega }

// Eventually calls a function until it satisfies a matcher.
func (p polling) Eventually(actualOrCtx any, args ...any) gomega.AsyncAssertion {
	all := polled(0, actualOrCtx, args...)
	return p.Gomega.Eventually(all[0], all[1:]...)
}

// Consistently calls a function for some time, during which it has to satisfy a matcher.
func (p polling) Consistently(actualOrCtx any, args ...any) gomega.AsyncAssertion {
	all := polled(readTimeout, actualOrCtx, args...)
	return p.Gomega.Consistently(all[0], all[1:]...)
}

// polled replaces the functions among arguments of Eventually or Consistently by functions that report failures to the
// Gomega of the poll. A function whose Expect fails is called again within a time limit.
func polled(within time.Duration, actualOrCtx any, args ...any) []any {
	all := append([]any{actualOrCtx}, args...)
	for i, arg := range all {
		if f := reflect.ValueOf(arg); f.Kind() == reflect.Func {
			all[i] = reporting(f, within)
		}
	}
	return all
}

var gomegaType = reflect.TypeFor[gomega.Gomega]()

// reporting returns a function that calls f. Its first parameter is the Gomega to which it reports failures.
func reporting(f reflect.Value, within time.Duration) any {
	var in, out []reflect.Type
	for t := range f.Type().Ins() {
		in = append(in, t)
	}
	for t := range f.Type().Outs() {
		out = append(out, t)
	}
	takesGomega := len(in) > 0 && in[0] == gomegaType
	if !takesGomega {
		in = append([]reflect.Type{gomegaType}, in...)
	}
	call := f.Call
	if f.Type().IsVariadic() {
		call = f.CallSlice
	}
	reports := func(all []reflect.Value) (results []reflect.Value) {
		g := all[0].Interface().(gomega.Gomega)
		if !takesGomega {
			all = all[1:]
		}
		begin := time.Now()
		err := attempt(func() { results = call(all) })
		for err != nil && time.Since(begin) < within {
			time.Sleep(pollingInterval)
			err = attempt(func() { results = call(all) })
		}
		g.Expect(err == nil).To(gomega.BeTrue(), func() string { return err.Error() })
		return results
	}
	return reflect.MakeFunc(reflect.FuncOf(in, out, f.Type().IsVariadic()), reports).Interface()
}

// failure is what fail panics with in a function that attempt calls.
type failure struct{ error }

// attempt calls f, and returns the failure of an Expect of the package gomega in it.
func attempt(f func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case failure:
			err = e.error
		default:
			panic(e)
		}
	}()
	f()
	return nil
}

// fail ends the spec, except in a function that attempt calls. Its caller is the handler of failures.
func fail(end func(message string, callerSkip ...int), message string, callerSkip ...int) {
	skip := 2
	if len(callerSkip) > 0 {
		skip += callerSkip[0]
	}
	if !isAttempt() {
		end(message, skip)
		return
	}
	_, file, line, _ := runtime.Caller(skip)
	panic(failure{fmt.Errorf("%s:%d: %s", file, line, message)})
}

// isAttempt returns whether attempt is among the callers. Other goroutines of the spec may call it at the same time.
func isAttempt() bool {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "/suite.attempt") {
			return true
		}
		if !more {
			return false
		}
	}
}
