package store

import (
	"encoding/hex"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// parts is the stored form of a record: the parts that many records have in common, and the parts of this record only.
type parts struct {
	terms         [len(classes)]decision.Record // with the fields of the column only
	uid           any                           // of uidColumn
	times         []byte                        // of the rules, one byte each
	object, patch []byte
	rest          decision.Record // fields that are in no other part
}

// The columns of a decision with the id of a term, in their order.
const (
	whatColumn = iota
	whoColumn
	placeColumn
	shapeColumn
	textsColumn
)

// classes has the classes of the terms in those columns.
var classes = [...]int{whatColumn: classWhat, whoColumn: classWho, placeColumn: classPlace, shapeColumn: classShape, textsColumn: classTexts}

var (
	// fieldsOf has the fields of a record that the terms in a column hold. The texts are also those of the rules.
	fieldsOf = [len(classes)][]int{
		whatColumn:  fields("Schema", "Webhook", "Operation", "Group", "Version", "Kind", "Subresource", "DryRun", "Cluster", "Verdict", "Allowed", "Share", "Policies"),
		whoColumn:   fields("User", "Groups"),
		placeColumn: fields("Namespace"),
		shapeColumn: fields("Rules"),
		textsColumn: fields("Message"),
	}
	// apart has the fields that have a column or a table of their own.
	apart = fields("Time", "Duration", "UID", "Name", "Object", "Patch", "Request")
	// others has the fields of the rest.
	others = func() (out []int) {
		known := slices.Concat(append(fieldsOf[:], apart)...)
		for i := range reflect.TypeFor[decision.Record]().NumField() {
			if !slices.Contains(known, i) {
				out = append(out, i)
			}
		}
		return out
	}()
)

// fields returns the indexes of fields of a record.
func fields(names ...string) (out []int) {
	for _, name := range names {
		f, ok := reflect.TypeFor[decision.Record]().FieldByName(name)
		if !ok {
			panic("a record has no field " + name) // every test would find that
		}
		out = append(out, f.Index[0])
	}
	return out
}

// copyFields copies fields from one record to another.
func copyFields(to, from *decision.Record, fields []int) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for _, i := range fields {
		a.Field(i).Set(b.Field(i))
	}
}

// split returns the parts of a record.
func split(r *decision.Record) *parts {
	p := &parts{}
	copyFields(&p.rest, r, others)
	for column := whatColumn; column <= placeColumn; column++ {
		copyFields(&p.terms[column], r, fieldsOf[column])
	}
	words, shape, texts := newWords(r), &p.terms[shapeColumn], &p.terms[textsColumn]
	texts.Message = words.cut(r.Message)
	some := texts.Message != ""
	for _, x := range r.Rules {
		p.times = append(p.times, brief(x.Duration))
		text := decision.Result{Message: words.cut(x.Message), Path: x.Path}
		texts.Rules = append(texts.Rules, text)
		some = some || text.Message != "" || text.Path != ""
		x.Message, x.Path, x.Duration = "", "", 0
		shape.Rules = append(shape.Rules, x)
	}
	for n := len(texts.Rules); n > 0 && texts.Rules[n-1].Message == "" && texts.Rules[n-1].Path == ""; n-- {
		texts.Rules = texts.Rules[:n-1]
	}
	if !some {
		texts.Rules = nil
	}
	p.uid, p.object, p.patch = uidColumn(r.UID), sum(r.Object), sum(r.Patch)
	return p
}

// join adds texts and times to a record that has all other parts. It changes the rules, which no other record may share.
func join(r *decision.Record, texts *decision.Record, times []byte) {
	words := newWords(r)
	if texts != nil {
		r.Message = words.fill(texts.Message)
		for i := range min(len(texts.Rules), len(r.Rules)) {
			r.Rules[i].Message, r.Rules[i].Path = words.fill(texts.Rules[i].Message), texts.Rules[i].Path
		}
	}
	for i := range min(len(times), len(r.Rules)) {
		r.Rules[i].Duration = long(times[i])
	}
}

// words replaces the name of an object and its namespace in messages by one byte each, so that equal messages about different objects are
// stored once.
type words struct{ in, out *strings.Replacer }

// The bytes that replace a name and a namespace, and the byte that escapes these three.
const nameByte, placeByte, plainByte = "\x01", "\x02", "\x03"

// minWord is the minimum length of a word that is replaced.
const minWord = 3

func newWords(r *decision.Record) words {
	in := []string{nameByte, plainByte + "1", placeByte, plainByte + "2", plainByte, plainByte + "3"}
	out := []string{plainByte + "1", nameByte, plainByte + "2", placeByte, plainByte + "3", plainByte}
	// The longer one is first, since one may be a part of the other.
	name, place := strings.TrimSuffix(r.Name, "*"), r.Namespace
	pairs := [][2]string{{name, nameByte}, {place, placeByte}}
	if len(place) > len(name) {
		pairs[0], pairs[1] = pairs[1], pairs[0]
	}
	for _, p := range pairs {
		if len(p[0]) >= minWord {
			in, out = append(in, p[0], p[1]), append(out, p[1], p[0])
		}
	}
	return words{in: strings.NewReplacer(in...), out: strings.NewReplacer(out...)}
}

func (w words) cut(text string) string  { return w.in.Replace(text) }
func (w words) fill(text string) string { return w.out.Replace(text) }

// steps is the number of steps for each doubling of a duration, so that one byte holds any duration up to minutes, to within 4 %.
const steps = 9

// brief returns a duration as one byte; zero for less than half a microsecond.
func brief(d time.Duration) byte {
	us := float64(d) / float64(time.Microsecond)
	if us < 0.5 {
		return 0
	}
	return byte(min(max(math.Round(steps*math.Log2(us))+10, 1), 255))
}

// long returns the duration that a byte encodes.
func long(b byte) time.Duration {
	if b == 0 {
		return 0
	}
	return time.Duration(math.Exp2((float64(b)-10)/steps) * float64(time.Microsecond))
}

// uidColumn returns a UID as it is stored: the 16 bytes of a UUID, or the text.
func uidColumn(uid string) any {
	if b := uuid(uid); b != nil {
		return b
	}
	return uid
}

// uuid returns the bytes of a UUID in its usual form; nil for other texts.
func uuid(text string) []byte {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return nil
	}
	out, err := hex.DecodeString(text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:])
	if err != nil || uuidText(out) != text {
		return nil
	}
	return out
}

// uuidText returns the usual form of a UUID.
func uuidText(b []byte) string {
	text := hex.EncodeToString(b)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// sum returns the bytes of a digest in hex; nil for none.
func sum(text string) []byte {
	out, err := hex.DecodeString(text)
	if err != nil || len(out) == 0 {
		return nil
	}
	return out
}
