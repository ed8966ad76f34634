package host

import "bytes"

// bounded keeps the first limit bytes that are written to it and discards the rest, so that the program does not
// block. The buffer is not embedded, because io.Copy would use its ReadFrom and bypass the limit.
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

// beginning returns at most limit bytes of what was written.
func (b *bounded) beginning(limit int) string {
	return string(b.kept.Bytes()[:min(limit, b.kept.Len())])
}

// report keeps the beginning of stdout and stderr in their order.
type report struct{ bounded }
