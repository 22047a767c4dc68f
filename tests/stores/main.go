// Stores of profiles for tests: they check each request as the documents of the real ones have it, refuse what is wrong, and write
// a line of JSON for each profile that they take. They can also be slow, broken, wrong or gone.
package main

import (
	"bufio"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// A profile of one process in one window.
type taken struct {
	Kind     string            `json:"kind"`
	Resource map[string]string `json:"resource"`
	// By sample type: the sum, and the values by functions, the innermost first.
	Sums     map[string]int64            `json:"sums"`
	Sites    map[string]map[string]int64 `json:"sites"`
	Units    map[string]string           `json:"units"`
	FromMs   int64                       `json:"from_ms"`
	UntilMs  int64                       `json:"until_ms"`
	Period   int64                       `json:"period"`
	BuildIDs map[string]string           `json:"build_ids"`
}

func (t *taken) add(kind, unit string, stack []string, value int64) {
	if t.Sums == nil {
		t.Sums, t.Sites, t.Units = map[string]int64{}, map[string]map[string]int64{}, map[string]string{}
	}
	if t.Sites[kind] == nil {
		t.Sites[kind] = map[string]int64{}
	}
	t.Units[kind] = unit
	t.Sums[kind] += value
	if len(stack) > 0 {
		t.Sites[kind][strings.Join(stack, "<")] += value
	}
}

var (
	kind     = flag.String("kind", "otlp", "otlp, pyroscope or parca")
	address  = flag.String("address", "127.0.0.1:0", "where it listens")
	found    = flag.String("address-file", "", "file for the address that it got")
	out      = flag.String("out", "", "file for the profiles that it takes")
	refused  = flag.String("refused", "", "file for the reasons why it refuses requests")
	fail     = flag.Int("fail", 0, "so many requests get status 503 first")
	retry    = flag.String("retry-after", "", "Retry-After of these")
	status   = flag.Int("status", 0, "each request gets this status")
	behave   = flag.String("behave", "", "silent, drip, endless, redirect, echo, die or accept-drip")
	header   = flag.String("header", "", "NAME: VALUE that requests need")
	ca       = flag.String("ca", "", "TLS: file for the certificate of the authority that signs the store's")
	host     = flag.String("host", "127.0.0.1", "TLS: the address that the certificate is for")
	requests = flag.String("requests", "", "file with a line for each request")
)

var lines sync.Mutex

func appendTo(path, line string) {
	if path == "" {
		return
	}
	lines.Lock()
	defer lines.Unlock()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(line + "\n"); err != nil {
		log.Fatal(err)
	}
}

func main() {
	flag.Parse()
	// Whatever becomes of the test.
	time.AfterFunc(5*time.Minute, func() { os.Exit(1) })
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	if *found != "" {
		// Whoever waits for it finds all of it.
		if err := os.WriteFile(*found+".new", []byte(listener.Addr().String()), 0o600); err != nil {
			log.Fatal(err)
		}
		if err := os.Rename(*found+".new", *found); err != nil {
			log.Fatal(err)
		}
	}
	if *ca != "" {
		listener = tls.NewListener(listener, encrypted())
	}
	log.Fatal(http.Serve(listener, http.HandlerFunc(answer)))
}

func answer(w http.ResponseWriter, r *http.Request) {
	appendTo(*requests, r.Method+" "+r.URL.Path)
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	if misbehaved(w, r) {
		return
	}
	if *header != "" {
		name, value, _ := strings.Cut(*header, ": ")
		if r.Header.Get(name) != value {
			w.WriteHeader(401)
			return
		}
	}
	lines.Lock()
	failing := *fail > 0
	*fail--
	lines.Unlock()
	if failing {
		if *retry != "" {
			w.Header().Set("Retry-After", *retry)
		}
		w.WriteHeader(503)
		return
	}
	if *status != 0 {
		w.WriteHeader(*status)
		return
	}
	read := map[string]func(*http.Request, []byte) ([]taken, error){"otlp": otlp, "pyroscope": pyroscope, "parca": parca}[*kind]
	all, err := read(r, body)
	if err != nil {
		appendTo(*refused, err.Error())
		http.Error(w, err.Error(), 400)
		return
	}
	for _, one := range all {
		text, err := json.Marshal(one)
		if err != nil {
			log.Fatal(err)
		}
		appendTo(*out, string(text))
	}
	if *behave == "accept-drip" {
		drip(w, 200)
		return
	}
	switch *kind {
	case "otlp":
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Write(otlpAnswer())
	case "parca":
		w.Header().Set("Content-Type", "application/grpc-web+proto")
		w.Write(parcaAnswer())
	}
}

// Whether it did something else than what a store does.
func misbehaved(w http.ResponseWriter, r *http.Request) bool {
	switch *behave {
	case "silent":
		time.Sleep(4 * time.Minute)
	case "drip":
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			log.Fatal(err)
		}
		defer connection.Close()
		for _, letter := range "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 4096) {
			if _, err := connection.Write([]byte(string(letter))); err != nil {
				return true
			}
			time.Sleep(100 * time.Millisecond)
		}
	case "endless":
		w.WriteHeader(400)
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return true
			}
		}
	case "redirect":
		http.Redirect(w, r, "http://"+*host+"/elsewhere", http.StatusTemporaryRedirect)
	case "echo":
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		if *kind == "otlp" {
			w.Write(otlpRejection(r.Header.Get("Authorization")))
			return true
		}
		http.Error(w, r.Header.Get("Authorization"), 403)
	case "die":
		os.Exit(0)
	default:
		return false
	}
	return true
}

func drip(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Length", "4096")
	w.WriteHeader(status)
	for {
		if _, err := w.Write([]byte{0}); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		time.Sleep(100 * time.Millisecond)
	}
}

func unpacked(body []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bufio.NewReader(strings.NewReader(string(body))))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return io.ReadAll(reader)
}

// An authority of its own, whose certificate goes to a file, and a certificate for the host.
func encrypted() *tls.Config {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	must(err)
	must(os.WriteFile(*ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.ParseIP(*host)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	der, err := x509.CreateCertificate(rand.Reader, server, authority, &own.PublicKey, key)
	must(err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own}}}
}
