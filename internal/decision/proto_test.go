package decision

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"ephor.invalid/ephor/internal/world/taped"
)

// full is a record without any empty field.
func full() Record {
	sum := strings.Repeat("0f", 16)
	return Record{
		Schema: Schema, Time: time.Unix(1700000000, 123456789).UTC(), Duration: 1234567, UID: "2f0d5ac4-8d6c-4a52-9f4b-1f0e6d8c3b11", Webhook: "ValidatingWebhookConfiguration",
		User: "jane", Groups: []string{"dev", ""}, Operation: "CREATE", Group: "apps", Version: "v1", Kind: "Deployment", Subresource: "scale", Namespace: "shop", Name: "web",
		DryRun: true, Cluster: "east", Verdict: Refused, Allowed: true, Message: "no", Share: 0.01, Policies: sum, Object: sum, Patch: sum,
		Rules: []Result{
			{Policy: "p", Rule: "r", Status: "fail", Action: "Enforce", Message: "m", Path: "/spec", Exceptions: []string{"shop/x", "shop/y"}, Duration: 5000},
			{}, {Policy: "q", Status: "pass"},
		},
		Request: &Request{
			Group: "apps", Version: "v1", Resource: "deployments", Asked: &Asked{Group: "apps", Version: "v1beta1", Kind: "Deployment", Resource: "deployments", Subresource: "scale"},
			Anonymous: true, UserUID: "7", UserExtra: map[string][]string{"a": {"x", "y"}, "b": {"z"}}, Object: &Body{Digest: sum, Deflated: []byte{1, 2}},
			OldObject: &Body{Digest: strings.Repeat("0e", 16), Deflated: []byte{3}}, Options: &Body{Digest: strings.Repeat("0d", 16), Deflated: []byte{4}}, Cut: []string{"/object/a"},
			Lookups: &Lookups{
				Salt: sum, Lacks: []string{"shop Services"}, Clipped: true, List: []Lookup{
					{Method: "object", Reach: "*", Asked: "x", Digest: sum, Answer: &Body{Digest: strings.Repeat("0c", 16), Deflated: []byte{5}}, Error: &taped.Failure{Text: "t", Cause: "path", Args: []string{"a", ""}}, Unknown: CutAnswer},
					{Method: "roles"},
				},
			},
		},
	}
}

func TestProto(t *testing.T) {
	r := full()
	for _, v := range []reflect.Value{reflect.ValueOf(r), reflect.ValueOf(*r.Request), reflect.ValueOf(*r.Request.Asked), reflect.ValueOf(*r.Request.Lookups), reflect.ValueOf(r.Request.Lookups.List[0])} {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Withheld" && v.Field(i).IsZero() {
				t.Fatalf("the field %s of the test's record is empty", name)
			}
		}
	}
	records := []Record{r, {Schema: Schema}}
	id := NewBatchID()
	b, err := AppendBatch(nil, id, records)
	if err != nil {
		t.Fatal(err)
	}
	gotID, back, err := ParseBatch(b, 2)
	if err != nil || gotID != id || !reflect.DeepEqual(back, records) {
		t.Fatalf("%v\n%x\n%+v\n%+v", err, gotID, back, records)
	}
	if _, back, err := ParseBatch(append(slices.Clone(b), 0x1a, 1, 'x', 0x20, 7), 2); err != nil || !reflect.DeepEqual(back, records) {
		t.Errorf("unknown fields of a newer version: %v", err)
	}
	for name, bad := range map[string][]byte{"a short ID": {0x12, 1, 'x'}, "a number as the ID": {0x10, 7}, "a number as a record": {0x08, 7}, "no field": {0xff}} {
		if _, _, err := ParseBatch(append(slices.Clone(b), bad...), 2); !errors.Is(err, ErrProto) {
			t.Errorf("%s gives %v", name, err)
		}
	}
	if _, _, err := ParseBatch(b, 1); err == nil {
		t.Error("too many records are accepted")
	}
	for n := 1; n < len(b); n++ {
		if _, back, err := ParseBatch(b[:n], 2); err == nil && len(back) > 1 {
			t.Errorf("%d bytes of %d are accepted", n, len(b))
		}
	}
}

// The bytes and the text of a record are those that earlier versions write. Stores find equal parts of records by their bytes.
func TestEarlierRecords(t *testing.T) {
	r := full()
	proto, err := r.AppendProto(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, got := range map[string][]byte{"testdata/record.binpb": proto, "testdata/record.json": append(text, '\n')} {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", path, got, want)
		}
	}
	if b, err := (&Record{Object: "no digest"}).AppendProto(nil); err == nil {
		t.Errorf("a digest that is none gives %x", b)
	}
}

// Every record is read as it was written, except for empty lists.
func TestProtoRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	sums := []string{"", strings.Repeat("0f", 16), "00"}
	for i := range 1000 {
		var r, back, again Record
		fill(reflect.ValueOf(&r).Elem(), random)
		r.Policies, r.Object, r.Patch = sums[random.IntN(3)], sums[random.IntN(3)], sums[random.IntN(3)]
		if r.Request != nil {
			for _, b := range r.Request.Bodies() {
				b.Digest = sums[random.IntN(3)]
			}
			if l := r.Request.Lookups; l != nil {
				l.Salt = sums[random.IntN(3)]
				for k := range l.List {
					l.List[k].Digest = sums[random.IntN(3)]
				}
			}
		}
		b, err := r.AppendProto(nil)
		if err == nil {
			err = back.MergeProto(b)
		}
		if err != nil {
			t.Fatal(err)
		}
		second, err := back.AppendProto(nil)
		if err == nil {
			err = again.MergeProto(second)
		}
		if err != nil || !bytes.Equal(b, second) || !reflect.DeepEqual(back, again) {
			t.Fatalf("record %d, %v:\n%+v\n%+v", i, err, r, back)
		}
	}
}

// The bytes conform to decision.proto: a decoder that is generated from the file reads them.
func TestProtoFile(t *testing.T) {
	file, err := protodesc.NewFile(descriptorOf(t, "decision.proto"), nil)
	if err != nil {
		t.Fatal(err)
	}
	message := dynamicpb.NewMessage(file.Messages().ByName("Record"))
	r := full()
	b, err := r.AppendProto(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, message); err != nil {
		t.Fatal(err)
	}
	if unknown := message.GetUnknown(); len(unknown) > 0 {
		t.Errorf("%d bytes are not in the file", len(unknown))
	}
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		if !message.Has(fields.Get(i)) {
			t.Errorf("%s of the file is not written", fields.Get(i).Name())
		}
	}
	get := func(name string) protoreflect.Value { return message.Get(fields.ByName(protoreflect.Name(name))) }
	rule := get("rules").List().Get(0).Message()
	got := fmt.Sprintln(get("schema").String(), get("time_unix_nano").Int(), get("uid").String(), get("user_groups").List().Len(), get("namespace_name").String(), get("verdict").String(), get("allowed").Bool(), get("share").Float(),
		fmt.Sprintf("%x", get("object").Bytes()), rule.Get(rule.Descriptor().Fields().ByName("exceptions")).List().Get(1).String())
	want := fmt.Sprintln(r.Schema, r.Time.UnixNano(), r.UID, 2, r.Namespace, string(r.Verdict), true, r.Share, r.Object, "shop/y")
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	id := NewBatchID()
	text, err := AppendBatch(nil, id, []Record{r})
	if err != nil {
		t.Fatal(err)
	}
	batch := dynamicpb.NewMessage(file.Messages().ByName("Batch"))
	if err := proto.Unmarshal(text, batch); err != nil || len(batch.GetUnknown()) > 0 {
		t.Errorf("a batch: %v, %d bytes are not in the file", err, len(batch.GetUnknown()))
	}
	if got := batch.Get(batch.Descriptor().Fields().ByName("id")).Bytes(); !bytes.Equal(got, id[:]) {
		t.Errorf("the ID is %x, want %x", got, id)
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	var back Record
	if err := back.MergeProto(again); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%v\n%+v\n%+v", err, back, r)
	}
}

var protoField = regexp.MustCompile(`^\s+(repeated )?(\w+) (\w+) = (\d+);$`)

// descriptorOf parses the few forms of lines that decision.proto has. Any other line fails the test.
func descriptorOf(t *testing.T, path string) *descriptorpb.FileDescriptorProto {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	types := map[string]descriptorpb.FieldDescriptorProto_Type{
		"string": descriptorpb.FieldDescriptorProto_TYPE_STRING, "bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES, "int64": descriptorpb.FieldDescriptorProto_TYPE_INT64,
		"bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL, "double": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	}
	out := &descriptorpb.FileDescriptorProto{Name: proto.String(path), Syntax: proto.String("proto3"), Package: proto.String("ephor.decision.v1")}
	var message *descriptorpb.DescriptorProto
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		words := strings.Fields(line)
		switch m := protoField.FindStringSubmatch(line); {
		case len(words) == 0, strings.HasPrefix(words[0], "//"), line == `syntax = "proto3";`, line == "package ephor.decision.v1;", line == "}":
		case words[0] == "message":
			message = &descriptorpb.DescriptorProto{Name: proto.String(words[1])}
			out.MessageType = append(out.MessageType, message)
		case m != nil:
			number := int32(0)
			fmt.Sscan(m[4], &number)
			field := &descriptorpb.FieldDescriptorProto{Name: proto.String(m[3]), Number: &number, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if m[1] != "" {
				field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if kind, scalar := types[m[2]]; scalar {
				field.Type = kind.Enum()
			} else {
				field.Type, field.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".ephor.decision.v1."+m[2])
			}
			message.Field = append(message.Field, field)
		default:
			t.Fatalf("%s: %q is not understood", path, line)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func FuzzProto(f *testing.F) {
	r := full()
	b, err := AppendBatch(nil, NewBatchID(), []Record{r})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		id, records, err := ParseBatch(b, 10)
		if err != nil {
			return
		}
		if _, err := AppendBatch(nil, id, records); err != nil {
			t.Fatal(err)
		}
	})
}
