package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net/http"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
)

// Ids of all profiles so far: none comes twice.
var ids = map[pprofile.ProfileID]bool{}

func otlp(r *http.Request, body []byte) ([]taken, error) {
	if r.Method != "POST" || r.URL.Path != "/v1development/profiles" || r.URL.RawQuery != "" {
		return nil, fmt.Errorf("%s %s", r.Method, r.URL)
	}
	if r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Content-Encoding") != "gzip" {
		return nil, fmt.Errorf("headers: %v", r.Header)
	}
	plain, err := unpacked(body)
	if err != nil {
		return nil, err
	}
	request := pprofileotlp.NewExportRequest()
	if err := request.UnmarshalProto(plain); err != nil {
		return nil, err
	}
	profiles := request.Profiles()
	dictionary := profiles.Dictionary()
	if err := checkDictionary(dictionary); err != nil {
		return nil, err
	}
	var all []taken
	for _, resource := range profiles.ResourceProfiles().All() {
		one := taken{Kind: "otlp", Resource: map[string]string{}, BuildIDs: buildIDs(dictionary)}
		for key, value := range resource.Resource().Attributes().All() {
			one.Resource[key] = value.AsString()
			if key == "process.pid" && value.Type() != pcommon.ValueTypeInt {
				return nil, errors.New("process.pid is no number")
			}
		}
		for _, scope := range resource.ScopeProfiles().All() {
			if scope.Scope().Name() != "mallow" || scope.Scope().Version() == "" {
				return nil, fmt.Errorf("scope %q %q", scope.Scope().Name(), scope.Scope().Version())
			}
			for _, profile := range scope.Profiles().All() {
				if err := addProfile(&one, dictionary, profile); err != nil {
					return nil, err
				}
			}
		}
		if len(one.Units) != 4 {
			return nil, fmt.Errorf("sample types %v", one.Units)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, errors.New("no profile")
	}
	return all, nil
}

func addProfile(one *taken, dictionary pprofile.ProfilesDictionary, profile pprofile.Profile) error {
	if profile.ProfileID().IsEmpty() || ids[profile.ProfileID()] {
		return fmt.Errorf("profile id %s", profile.ProfileID())
	}
	ids[profile.ProfileID()] = true
	text := func(number int32) string { return dictionary.StringTable().At(int(number)) }
	kind, unit := text(profile.SampleType().TypeStrindex()), text(profile.SampleType().UnitStrindex())
	if kind == "" || unit == "" || one.Units[kind] != "" {
		return fmt.Errorf("sample type %q %q", kind, unit)
	}
	if text(profile.PeriodType().TypeStrindex()) != "space" || profile.Period() <= 0 {
		return fmt.Errorf("period %d", profile.Period())
	}
	one.Period = profile.Period()
	one.add(kind, unit, nil, 0)
	from := profile.Time().AsTime().UnixMilli()
	until := from + int64(profile.DurationNano()/1_000_000)
	if kind == "alloc_space" {
		one.FromMs, one.UntilMs = from, until
	}
	for _, sample := range profile.Samples().All() {
		if sample.Values().Len() != 1 || sample.TimestampsUnixNano().Len() != 0 || sample.LinkIndex() != 0 {
			return errors.New("a sample has one value, no time and no link")
		}
		if sample.StackIndex() < 0 || int(sample.StackIndex()) >= dictionary.StackTable().Len() {
			return fmt.Errorf("stack %d", sample.StackIndex())
		}
		if sample.Values().At(0) <= 0 {
			return fmt.Errorf("value %d", sample.Values().At(0))
		}
		var stack []string
		for _, number := range dictionary.StackTable().At(int(sample.StackIndex())).LocationIndices().All() {
			for _, line := range dictionary.LocationTable().At(int(number)).Lines().All() {
				stack = append(stack, text(dictionary.FunctionTable().At(int(line.FunctionIndex())).NameStrindex()))
			}
		}
		one.add(kind, unit, stack, sample.Values().At(0))
	}
	return nil
}

// Number 0 of each table is its empty value, and each number is one of its table.
func checkDictionary(d pprofile.ProfilesDictionary) error {
	for name, length := range map[string]int{
		"mappings": d.MappingTable().Len(), "locations": d.LocationTable().Len(), "functions": d.FunctionTable().Len(),
		"links": d.LinkTable().Len(), "strings": d.StringTable().Len(), "attributes": d.AttributeTable().Len(),
		"stacks": d.StackTable().Len(),
	} {
		if length == 0 {
			return fmt.Errorf("no %s", name)
		}
	}
	if d.StringTable().At(0) != "" || !d.MappingTable().At(0).Equal(pprofile.NewMapping()) ||
		!d.LocationTable().At(0).Equal(pprofile.NewLocation()) || !d.FunctionTable().At(0).Equal(pprofile.NewFunction()) ||
		!d.LinkTable().At(0).Equal(pprofile.NewLink()) || !d.StackTable().At(0).Equal(pprofile.NewStack()) ||
		!d.AttributeTable().At(0).Equal(pprofile.NewKeyValueAndUnit()) {
		return errors.New("number 0 is not empty")
	}
	seen := map[string]bool{}
	for _, text := range d.StringTable().All() {
		if seen[text] {
			return fmt.Errorf("%q comes twice", text)
		}
		seen[text] = true
	}
	within := func(what string, number int32, length int) error {
		if number < 0 || int(number) >= length {
			return fmt.Errorf("%s %d of %d", what, number, length)
		}
		return nil
	}
	attributes := func(numbers pcommon.Int32Slice) (err error) {
		for _, number := range numbers.All() {
			err = errors.Join(err, within("attribute", number, d.AttributeTable().Len()))
		}
		return err
	}
	strings := d.StringTable().Len()
	var err error
	for _, mapping := range d.MappingTable().All() {
		err = errors.Join(err, within("string", mapping.FilenameStrindex(), strings), attributes(mapping.AttributeIndices()))
	}
	for _, location := range d.LocationTable().All() {
		err = errors.Join(err, within("mapping", location.MappingIndex(), d.MappingTable().Len()), attributes(location.AttributeIndices()))
		for _, line := range location.Lines().All() {
			err = errors.Join(err, within("function", line.FunctionIndex(), d.FunctionTable().Len()))
		}
	}
	for _, function := range d.FunctionTable().All() {
		err = errors.Join(err, within("string", function.NameStrindex(), strings), within("string", function.FilenameStrindex(), strings))
	}
	for _, attribute := range d.AttributeTable().All() {
		err = errors.Join(err, within("string", attribute.KeyStrindex(), strings))
	}
	for _, stack := range d.StackTable().All() {
		for _, number := range stack.LocationIndices().All() {
			err = errors.Join(err, within("location", number, d.LocationTable().Len()))
		}
	}
	return err
}

func buildIDs(d pprofile.ProfilesDictionary) map[string]string {
	all := map[string]string{}
	for _, mapping := range d.MappingTable().All() {
		for _, number := range mapping.AttributeIndices().All() {
			attribute := d.AttributeTable().At(int(number))
			id := attribute.Value().AsString()
			if d.StringTable().At(int(attribute.KeyStrindex())) == "process.executable.build_id.gnu" {
				if _, err := hex.DecodeString(id); err == nil {
					all[d.StringTable().At(int(mapping.FilenameStrindex()))] = id
				}
			}
		}
	}
	return all
}

func otlpAnswer() []byte { return marshalled(pprofileotlp.NewExportResponse()) }

func otlpRejection(words string) []byte {
	response := pprofileotlp.NewExportResponse()
	response.PartialSuccess().SetRejectedProfiles(1)
	response.PartialSuccess().SetErrorMessage(words)
	return marshalled(response)
}

func marshalled(response pprofileotlp.ExportResponse) []byte {
	bytes, err := response.MarshalProto()
	if err != nil {
		log.Fatal(err)
	}
	return bytes
}
