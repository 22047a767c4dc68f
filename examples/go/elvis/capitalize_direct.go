//go:build direct

package elvis

import (
	"bytes"
)

// Capitalize copies text to out, with each from replaced by to. It calls the buffer itself.
func Capitalize(text, from, to []byte, out *bytes.Buffer) {
	in := bytes.NewBuffer(text)
	size := len(from)
	window := make([]byte, size)
	last := size - 1

	if n, err := in.Read(window[:last]); err != nil || n < last {
		out.Write(window[:n])
		return
	}
	for {
		if _, err := in.Read(window[last:]); err != nil {
			out.Write(window[:last])
			return
		}
		if !bytes.Equal(window, from) {
			out.WriteByte(window[0])
			copy(window, window[1:])
			continue
		}
		out.Write(to)
		if n, err := in.Read(window[:last]); err != nil || n < last {
			out.Write(window[:n])
			return
		}
	}
}
