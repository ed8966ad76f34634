package main

import (
	"bufio"
	"net"
	"net/http"
)

// hijacked stores the connection of a watch, so that it can be closed.
type hijacked struct {
	http.ResponseWriter
	b *bridge
	r *http.Request
}

func (h *hijacked) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil {
		h.b.mu.Lock()
		h.b.open[h.r] = func() { _ = c.Close() }
		h.b.mu.Unlock()
	}
	return c, buffered, err
}
