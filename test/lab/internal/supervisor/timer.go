package supervisor

import (
	"os"
	"syscall"
	"time"
)

// wakeInterval is the maximum time for which a node that lost a timer interrupt is suspended.
const wakeInterval = time.Second

// wake sends SIGALRM, which is a timer interrupt, to a node's kernel until it ends.
//
// User Mode Linux drops a timer interrupt that arrives while it serves the softirqs of the previous one
// (arch/um/os-Linux/signal.c, unblock_signals: "Do not reenter the handler"). Its timer fires once, and only the
// interrupt arms it again, so no further interrupt arrives: the kernel idles forever, and the node is lost without a
// message. This is rare, and happens on loaded machines. An additional interrupt is harmless: the kernel finds that no
// timer has expired.
func wake(kernel *os.Process, done <-chan struct{}) {
	ticker := time.NewTicker(wakeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			_ = kernel.Signal(syscall.SIGALRM)
		}
	}
}
