package words

import (
	"os"
	"runtime/pprof"
	"testing"
)

var kept []*[64]byte

//go:noinline
func readConfig() {
	for i := 0; i < 3; i++ {
		kept = append(kept, new([64]byte))
	}
}

//go:noinline
func scratch() {
	var last *[32]byte
	for i := 0; i < 1000; i++ {
		last = new([32]byte)
	}
	_ = last
}

func TestWords(t *testing.T) {
	readConfig()
	scratch()
	file, err := os.Create(os.Getenv("PROFILE"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := pprof.Lookup("heap").WriteTo(file, 0); err != nil {
		t.Fatal(err)
	}
}
