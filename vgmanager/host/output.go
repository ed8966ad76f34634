package host

import "bytes"

// bounded keeps the first limit bytes that are written to it, and takes the rest so that the program does not block.
// The buffer is not embedded: its ReadFrom would let io.Copy go round the limit.
type bounded struct {
	kept     bytes.Buffer
	limit    int
	overflow bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.kept.Len(); len(p) > room {
		b.overflow = true
		b.kept.Write(p[:room])
		return len(p), nil
	}
	return b.kept.Write(p)
}
