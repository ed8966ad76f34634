package archive

import (
	"bytes"
	"fmt"
	"io"
)

// Tail reads a text to its end and returns the last limit bytes as complete lines. If it omits text, the first line
// says how much. After an error it returns both the text up to then and the error.
func Tail(r io.Reader, limit int) ([]byte, error) {
	var kept []byte
	var cut int64
	chunk := make([]byte, 64<<10)
	for {
		n, err := r.Read(chunk)
		kept = append(kept, chunk[:n]...)
		if over := len(kept) - limit; over > limit || (over > 0 && err != nil) {
			cut += int64(over)
			kept = append([]byte(nil), kept[over:]...)
		}
		if err == io.EOF {
			err = nil
		} else if err == nil {
			continue
		}
		return announced(kept, cut), err
	}
}

func announced(kept []byte, cut int64) []byte {
	if cut == 0 {
		return kept
	}
	if end := bytes.IndexByte(kept, '\n'); end >= 0 {
		cut = cut + int64(end) + 1
		kept = kept[end+1:]
	}
	return append(fmt.Appendf(nil, "[%d bytes before this are left out]\n", cut), kept...)
}
