package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers are 1, 2, 3 … in the order in which they stand, as Parca's ValidatePprofProfile demands of mappings, functions and locations.
// Go's reader gives each its own numbers, so the bytes are looked at.
func numbered(data []byte) error {
	if zipped, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if data, err = io.ReadAll(zipped); err != nil {
			return err
		}
	}
	counts := map[protowire.Number]uint64{}
	for len(data) > 0 {
		number, kind, length := protowire.ConsumeTag(data)
		if length < 0 {
			return protowire.ParseError(length)
		}
		rest := data[length:]
		if length = protowire.ConsumeFieldValue(number, kind, rest); length < 0 {
			return protowire.ParseError(length)
		}
		const mapping, location, function = 3, 4, 5
		if number == mapping || number == location || number == function {
			counts[number]++
			message, _ := protowire.ConsumeBytes(rest)
			first, _, at := protowire.ConsumeTag(message)
			id, _ := protowire.ConsumeVarint(message[max(at, 0):])
			if first != 1 || id != counts[number] {
				return fmt.Errorf("number %d of field %d is %d: not sequential", counts[number], number, id)
			}
		}
		data = rest[length:]
	}
	return nil
}

// What a profile of pprof's has, by Go's own reader.
func (t *taken) read(data []byte) error {
	if err := numbered(data); err != nil {
		return err
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return err
	}
	if err := p.CheckValid(); err != nil {
		return err
	}
	for _, comment := range p.Comments {
		if strings.HasPrefix(comment, "command:") {
			return fmt.Errorf("a command line: %s", comment)
		}
	}
	if p.PeriodType == nil || p.PeriodType.Type != "space" || p.Period <= 0 || p.TimeNanos <= 0 {
		return fmt.Errorf("period %v %d, time %d", p.PeriodType, p.Period, p.TimeNanos)
	}
	t.Period = p.Period
	t.FromMs, t.UntilMs = p.TimeNanos/1e6, (p.TimeNanos+p.DurationNanos)/1e6
	t.BuildIDs = map[string]string{}
	for _, mapping := range p.Mapping {
		t.BuildIDs[mapping.File] = mapping.BuildID
	}
	for at, kind := range p.SampleType {
		t.add(kind.Type, kind.Unit, nil, 0)
		for _, sample := range p.Sample {
			var stack []string
			for _, location := range sample.Location {
				for _, line := range location.Line {
					stack = append(stack, line.Function.Name)
				}
			}
			if sample.Value[at] < 0 {
				return fmt.Errorf("value %d", sample.Value[at])
			}
			t.add(kind.Type, kind.Unit, stack, sample.Value[at])
		}
	}
	return nil
}

var series = regexp.MustCompile(`^([^{}=,]+)\{((?:[a-zA-Z_][a-zA-Z0-9_]*=[^{}=,]*(?:,|$|\}))*)$`)

func pyroscope(r *http.Request, body []byte) ([]taken, error) {
	query := r.URL.Query()
	if r.Method != "POST" || r.URL.Path != "/ingest" {
		return nil, fmt.Errorf("%s %s", r.Method, r.URL)
	}
	// As readInputRawDataFromRequest chooses: the format comes before the type of the body.
	if format := query.Get("format"); format == "pprof" {
		return nil, new(taken).read(body)
	} else if format != "" {
		return nil, fmt.Errorf("format %q", format)
	}
	name := series.FindStringSubmatch(query.Get("name"))
	if name == nil || !strings.HasSuffix(query.Get("name"), "}") {
		return nil, fmt.Errorf("name %q", query.Get("name"))
	}
	one := taken{Kind: "pyroscope", Resource: map[string]string{"service.name": name[1]}}
	for _, pair := range strings.Split(strings.TrimSuffix(name[2], "}"), ",") {
		key, value, _ := strings.Cut(pair, "=")
		one.Resource[key] = value
	}
	from, err := strconv.ParseInt(query.Get("from"), 10, 64)
	until, err2 := strconv.ParseInt(query.Get("until"), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if from <= 1_600_000_000 || until < from || until > 4_000_000_000 {
		return nil, fmt.Errorf("from %d until %d", from, until)
	}
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return nil, fmt.Errorf("type %q: %v", media, err)
	}
	form, err := multipart.NewReader(bytes.NewReader(body), parameters["boundary"]).ReadForm(64 << 20)
	if err != nil {
		return nil, err
	}
	file := func(name string) ([]byte, error) {
		if len(form.File[name]) != 1 {
			return nil, fmt.Errorf("%d files %q", len(form.File[name]), name)
		}
		opened, err := form.File[name][0].Open()
		if err != nil {
			return nil, err
		}
		var content bytes.Buffer
		_, err = content.ReadFrom(opened)
		return content.Bytes(), err
	}
	config, err := file("sample_type_config")
	if err != nil {
		return nil, err
	}
	var types map[string]struct {
		Units       string `json:"units"`
		DisplayName string `json:"display-name"`
		Aggregation string `json:"aggregation"`
		Sampled     bool   `json:"sampled"`
	}
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&types); err != nil {
		return nil, err
	}
	content, err := file("profile")
	if err != nil {
		return nil, err
	}
	if err := one.read(content); err != nil {
		return nil, err
	}
	for kind := range one.Units {
		known, ok := types[kind]
		aggregation := map[bool]string{true: "sum", false: "average"}[strings.HasPrefix(kind, "alloc_")]
		if !ok || known.Aggregation != aggregation || known.Sampled || (known.Units != "bytes" && known.Units != "objects") {
			return nil, fmt.Errorf("sample type %s: %+v", kind, known)
		}
	}
	return []taken{one}, nil
}

var label = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// WriteRaw of parca.profilestore.v1alpha1 by gRPC-Web; a field that the message does not have is an error.
func parca(r *http.Request, body []byte) ([]taken, error) {
	if r.Method != "POST" || r.URL.Path != "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw" {
		return nil, fmt.Errorf("%s %s", r.Method, r.URL)
	}
	if r.Header.Get("Content-Type") != "application/grpc-web+proto" || len(body) < 5 || body[0] != 0 {
		return nil, fmt.Errorf("headers: %v", r.Header)
	}
	if length := int(body[1])<<24 | int(body[2])<<16 | int(body[3])<<8 | int(body[4]); length != len(body)-5 {
		return nil, fmt.Errorf("a frame of %d bytes in a body of %d", length, len(body))
	}
	one := taken{Kind: "parca", Resource: map[string]string{}}
	normalized, before := false, ""
	oneLabel := func(text []byte) error {
		var name, value string
		err := fields(text, map[protowire.Number]func([]byte) error{
			1: func(text []byte) error { name = string(text); return nil },
			2: func(text []byte) error { value = string(text); return nil },
		})
		if err != nil || !label.MatchString(name) || name <= before {
			return fmt.Errorf("label %q behind %q: %v", name, before, err)
		}
		before, one.Resource[name] = name, value
		return nil
	}
	err := fields(body[5:], map[protowire.Number]func([]byte) error{
		2: func(series []byte) error {
			return fields(series, map[protowire.Number]func([]byte) error{
				1: func(set []byte) error { return fields(set, map[protowire.Number]func([]byte) error{1: oneLabel}) },
				2: func(sample []byte) error { return fields(sample, map[protowire.Number]func([]byte) error{1: one.read}) },
			})
		},
		3: func(value []byte) error { normalized = len(value) == 1 && value[0] == 1; return nil },
	})
	if err != nil {
		return nil, err
	}
	if !normalized || one.Resource["__name__"] != "memory" || one.Units == nil {
		return nil, fmt.Errorf("normalized %v, labels %v", normalized, one.Resource)
	}
	return []taken{one}, nil
}

func fields(message []byte, known map[protowire.Number]func([]byte) error) error {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return protowire.ParseError(length)
		}
		message = message[length:]
		read := known[number]
		if read == nil {
			return fmt.Errorf("field %d", number)
		}
		var value []byte
		switch kind {
		case protowire.BytesType:
			value, length = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			_, length = protowire.ConsumeVarint(message)
			if length > 0 {
				value = message[:length]
			}
		default:
			return fmt.Errorf("field %d of type %d", number, kind)
		}
		if length < 0 {
			return protowire.ParseError(length)
		}
		message = message[length:]
		if err := read(value); err != nil {
			return err
		}
	}
	return nil
}

// An empty message, and the trailer.
func parcaAnswer() []byte {
	trailer := "grpc-status: 0\r\n"
	return append([]byte{0, 0, 0, 0, 0, 0x80, 0, 0, 0, byte(len(trailer))}, trailer...)
}
