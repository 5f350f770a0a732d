package impact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Record is a recorded request that is not decoded yet.
type Record struct {
	// At is the position of the record, such as requests.jsonl:12.
	At string
	// Text is an AdmissionReview in JSON, or an event of an audit log.
	Text string
	// Object is an existing object with its request; nil for a recorded review.
	Object *policy.Request
	// Decision is a recorded decision with its request; nil for others.
	Decision *decision.Record
	// Lookups has the lookups of each review of the request; nil if they are not recorded.
	Lookups []*decision.Lookups
	// Audited: the text is an event of an audit log.
	Audited bool
	// Time is the time of the request; zero if the record does not have it.
	Time time.Time
	// Err is the reason why the record cannot be read.
	Err error
	// since is the time before which events of an audit log are skipped.
	since time.Time
}

// MaxRecord is the longest record that is read.
const MaxRecord = 32 << 20

// errEmpty is the error for a source without a record.
var errEmpty = errors.New("there is no record in it")

// Reviews reads AdmissionReviews: JSON, one after the other or one on each line, or documents of YAML. A record that cannot be read has an
// error; reading continues on the next line.
func Reviews(name string, r io.Reader) iter.Seq[Record] { return records(name, r, Record{}) }

// AuditLog reads the events of an audit log since a time, in JSON, one on each line.
func AuditLog(name string, r io.Reader, since time.Time) iter.Seq[Record] {
	return records(name, r, Record{Audited: true, since: since})
}

func records(name string, r io.Reader, of Record) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		in := bufio.NewReaderSize(r, 256<<10)
		given := false
		emit := func(rec Record) bool {
			given, rec.Audited, rec.since = true, of.Audited, of.since
			return yield(rec)
		}
		if begin, _ := in.Peek(len(byteOrderMark)); string(begin) == byteOrderMark {
			_, _ = in.Discard(len(byteOrderMark)) // these bytes are in the buffer
		}
		begin, _ := in.Peek(512)
		var goOn bool
		switch first := bytes.TrimSpace(begin); {
		case of.Audited, len(first) > 0 && first[0] == '{':
			goOn = jsonRecords(name, in, emit)
		default:
			goOn = yamlRecords(name, in, emit)
		}
		if goOn && !given {
			yield(Record{At: name, Err: errEmpty})
		}
	}
}

// byteOrderMark is what some editors and shells write before a text.
const byteOrderMark = "\ufeff"

// jsonRecords reads JSON documents. It does not search for the end of a document that is a whole line. Such a line also ends a document that is
// not complete, such as one that its writer did not finish.
func jsonRecords(name string, in *bufio.Reader, emit func(Record) bool) bool {
	line := 0
	var held []byte // lines of an incomplete document
	var open nesting
	start := 0
	for {
		text, err := readLine(in)
		if len(text) > 0 {
			line++
			if len(held) == 0 {
				start = line
			}
		}
		trimmed, document := bytes.TrimSpace(text), ""
		if len(trimmed) > 0 && trimmed[len(trimmed)-1] == '}' && (len(held) == 0 || text[0] == '{' && len(trimmed) > len("{}")) {
			document = string(trimmed)
		}
		switch {
		case len(held) == 0 && len(trimmed) == 0:
		case document != "" && isWhole(document):
			if len(held) > 0 {
				if !emit(Record{At: name + ":" + strconv.Itoa(start), Err: errIncomplete}) {
					return false
				}
				held, open = held[:0], nesting{}
			}
			if !emit(Record{At: name + ":" + strconv.Itoa(line), Text: document}) {
				return false
			}
		default:
			held = append(held, text...)
			open.add(text)
			if bytes.HasPrefix(trimmed, []byte("}")) && open.depth == 0 && json.Valid(held) { // it ends an indented document
				if !emit(Record{At: fmt.Sprintf("%s:%d", name, start), Text: string(held)}) {
					return false
				}
				held, open = held[:0], nesting{}
			}
		}
		if len(held) > MaxRecord {
			return emit(Record{At: fmt.Sprintf("%s:%d", name, start), Err: errRecord})
		}
		switch {
		case err == io.EOF && len(held) > 0:
			return emit(Record{At: fmt.Sprintf("%s:%d", name, start), Err: errIncomplete})
		case err == io.EOF:
			return true
		case err != nil:
			return emit(Record{At: fmt.Sprintf("%s:%d", name, line+1), Err: err})
		}
	}
}

// nesting is the number of brackets that are open after a part of a JSON document.
type nesting struct {
	depth           int
	quoted, escaped bool
}

func (n *nesting) add(text []byte) {
	for _, c := range text {
		switch {
		case n.escaped:
			n.escaped = false
		case n.quoted:
			n.quoted, n.escaped = c != '"', c == '\\'
		case c == '"':
			n.quoted = true
		case c == '{' || c == '[':
			n.depth++
		case c == '}' || c == ']':
			n.depth--
		}
	}
}

// isWhole reports whether the text is one JSON document. For documents that are nested too deeply it calls json.Valid, which takes longer.
func isWhole(text string) bool {
	r := value.NewReader(text)
	return r.Skip() == nil && r.End() == nil || json.Valid([]byte(text))
}

var errIncomplete = errors.New("the JSON document is not complete, or not valid")

var errRecord = fmt.Errorf("the record is longer than %d bytes", MaxRecord)

// readLine reads a line with its newline, up to MaxRecord bytes.
func readLine(in *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := in.ReadSlice('\n')
		if out == nil && err != bufio.ErrBufferFull {
			return part, err
		}
		out = append(out, part...)
		if len(out) > MaxRecord {
			return nil, errRecord
		}
		if err != bufio.ErrBufferFull {
			return out, err
		}
	}
}

func yamlRecords(name string, in *bufio.Reader, emit func(Record) bool) bool {
	documents := utilyaml.NewYAMLReader(in)
	for i := 1; ; i++ {
		text, err := documents.Read()
		at := fmt.Sprintf("%s, document %d", name, i)
		switch {
		case err == io.EOF:
			return true
		case err != nil:
			return emit(Record{At: at, Err: err})
		case len(text) > MaxRecord:
			return emit(Record{At: at, Err: errRecord})
		case len(bytes.TrimSpace(text)) == 0:
			continue
		}
		text, err = yaml.YAMLToJSON(text)
		if err != nil {
			err = fmt.Errorf("broken YAML (%w)", err)
		} else if string(bytes.TrimSpace(text)) == "null" {
			continue
		}
		if !emit(Record{At: at, Text: string(text), Err: err}) {
			return false
		}
	}
}

// Reasons why a record is not a request for admission. Such records are counted; they are not mistakes.
var (
	// ErrEarlier: the event is from before the requested time.
	ErrEarlier = errors.New("the event is earlier")
	// ErrNotAdmitted: the event is about a request that does not reach admission.
	ErrNotAdmitted = errors.New("admission is not asked about the request")
	// ErrNoObject: the event does not hold the object that was sent.
	ErrNoObject = errors.New("the record does not hold the object: the audit policy has to log the request at level RequestResponse")
)

// reviews has buffers for the reviews of recorded decisions: decoding one takes 1.9 × the time without the pool (BenchmarkRequest). Large
// buffers are not kept.
var reviews = sync.Pool{New: func() any { room := make([]byte, 0, 16<<10); return &room }}

const maxKeptReview = 256 << 10

// Request decodes the record, with the whole object.
func (r *Record) Request() (*policy.Request, error) { return r.request(nil) }

// request decodes the record with the fields of the object that reads returns; nil decodes the whole object.
func (r *Record) request(reads func(*policy.Request) *value.Fields) (*policy.Request, error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.Object != nil:
		return r.Object, nil
	}
	text := r.Text
	if r.Decision != nil {
		room := reviews.Get().(*[]byte)
		review, err := r.Decision.AppendReview((*room)[:0])
		text = string(review)
		if err == nil && cap(review) <= maxKeptReview {
			*room = review
		}
		reviews.Put(room)
		if err != nil {
			return nil, err
		}
	}
	if r.Audited {
		var err error
		if text, r.Time, err = reviewOf(text); !r.Time.IsZero() && r.Time.Before(r.since) {
			return nil, ErrEarlier
		} else if err != nil {
			return nil, err
		}
	}
	req, err := admission.DecodePart(text, reads)
	if err != nil {
		return nil, err
	}
	if req.RequestGVK.Kind == "" || req.GVR.Resource == "" || req.Operation == "" {
		return nil, errors.New("the AdmissionReview names no kind, no resource or no operation")
	}
	return req, nil
}

// subject returns the namespace and the name of the object of a request. For a creation, only the object has the name.
func subject(req *policy.Request) (namespace, name string) {
	namespace, name = req.Namespace, req.Name
	if isNamespace(req) {
		namespace = ""
	}
	if name != "" {
		return namespace, name
	}
	object, _ := req.Object.Map()
	metadata, _ := object["metadata"].(map[string]any)
	if name, _ = metadata["name"].(string); name == "" {
		if prefix, _ := metadata["generateName"].(string); prefix != "" {
			name = prefix + "*"
		}
	}
	return namespace, strings.Clone(name)
}
