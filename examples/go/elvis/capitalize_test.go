package elvis

import (
	"bytes"
	"testing"
)

const (
	text = "abcelvisaElvisabcelviseelvisaelvisaabeeeelvise l v i saa bb e l v i saa elvi\n" +
		"selvielviselvielvielviselvi1elvielviselvis"
	expected = "abcElvisaElvisabcElviseElvisaElvisaabeeeElvise l v i saa bb e l v i saa elvi\n" +
		"selviElviselvielviElviselvi1elviElvisElvis"
)

func TestCapitalize(t *testing.T) {
	var out bytes.Buffer
	Capitalize([]byte(text), []byte("elvis"), []byte("Elvis"), &out)
	if out.String() != expected {
		t.Errorf("%q, not %q", out.String(), expected)
	}
}

func BenchmarkCapitalize(b *testing.B) {
	var out bytes.Buffer
	in, from, to := []byte(text), []byte("elvis"), []byte("Elvis")
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		out.Reset()
		Capitalize(in, from, to, &out)
	}
}
