package supervisor

import (
	"os"
	"syscall"
	"time"
)

// wakeInterval is how long a node that lost a timer interrupt may stand still.
const wakeInterval = time.Second

// wake sends SIGALRM, which is a timer interrupt, to a node's kernel until it ends.
//
// User Mode Linux drops a timer interrupt that comes while it serves the softirqs of the one before
// (arch/um/os-Linux/signal.c, unblock_signals: "Do not reenter the handler"). Its timer fires once, and only the
// interrupt sets it again, so no further one comes: the kernel idles for ever, and the node is lost without a message.
// That is rare, and happens on loaded machines. A kernel that gets an interrupt too many finds that no timer is due.
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
