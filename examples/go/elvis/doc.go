// Package elvis capitalizes a name in a stream of bytes, in three versions: through an io.Reader, with the tag direct
// through the buffer's own methods, and with the tag fixed in a window whose size the compiler knows too.
package elvis
