package decision

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ephor-dev/ephor/internal/wildcard"
)

// Query selects records. Empty fields select all; names may hold wildcards.
type Query struct {
	Since, Until                       time.Time
	UID                                string
	Policies, Namespaces, Users, Kinds []string
	Verdicts                           []Verdict
}

// Selects reports whether the record is asked for.
func (q *Query) Selects(r *Record) bool {
	switch {
	case !q.Since.IsZero() && r.Time.Before(q.Since), !q.Until.IsZero() && !r.Time.Before(q.Until):
		return false
	case q.UID != "" && q.UID != r.UID:
		return false
	case len(q.Verdicts) > 0 && !slices.Contains(q.Verdicts, r.Verdict):
		return false
	case !among(q.Namespaces, r.Namespace), !among(q.Users, r.User), !among(q.Kinds, r.Kind):
		return false
	}
	return len(q.Policies) == 0 || slices.ContainsFunc(r.Rules, func(x Result) bool { return among(q.Policies, x.Policy) })
}

func among(patterns []string, name string) bool {
	return len(patterns) == 0 || wildcard.MatchAny(patterns, name)
}

// maxLine is the longest record that is read.
const maxLine = 4 << 20

// errSchema is the error for a line that is no record, or one of another version.
var errSchema = errors.New("it is not a record of " + Schema)

// Read hands over the records of JSON lines, one by one, until take returns false. Lines that do not begin with `{` are passed over: a log
// may hold others. A line that cannot be read is handed to wrong, with its number.
func Read(from io.Reader, take func(*Record) bool, wrong func(line int, err error)) error {
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for line := 1; in.Scan(); line++ {
		if !strings.HasPrefix(in.Text(), "{") {
			continue
		}
		var r Record
		err := json.Unmarshal(in.Bytes(), &r)
		if err == nil && r.Schema != Schema {
			if r.Schema == "" {
				continue // a line of the log in JSON
			}
			err = errSchema
		}
		if err != nil {
			wrong(line, err)
			continue
		}
		if !take(&r) {
			return nil
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes", maxLine)
	}
	return in.Err()
}
