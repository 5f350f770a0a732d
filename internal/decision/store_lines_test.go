package decision

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// disk takes only some of the bytes of a write, if it is full.
type disk struct {
	bytes.Buffer
	full bool
	left int // bytes
}

func (d *disk) Write(b []byte) (int, error) {
	if !d.full || len(b) <= d.left {
		return d.Buffer.Write(b)
	}
	n, _ := d.Buffer.Write(b[:d.left]) // a buffer has no errors
	d.left = 0
	return n, errors.New("no space left on device")
}

func line(uid string) []Record { return []Record{{Schema: Schema, UID: uid}} }

// Whatever part of a batch a full disk has taken, the records before and after it are read.
func TestLinesAfterAFullDisk(t *testing.T) {
	var one bytes.Buffer
	if err := NewLines(&one).Write(t.Context(), line("1")); err != nil {
		t.Fatal(err)
	}
	for left := range 2 * one.Len() {
		d := &disk{}
		l := NewLines(d)
		if err := l.Write(t.Context(), line("before")); err != nil {
			t.Fatal(err)
		}
		d.full, d.left = true, left
		for range 2 {
			if err := l.Write(t.Context(), append(line("1"), line("2")...)); err == nil {
				t.Fatal("a full disk takes records")
			}
		}
		d.full = false
		if err := l.Write(t.Context(), line("after")); err != nil {
			t.Fatal(err)
		}
		var uids []string
		err := Read(&d.Buffer, func(r *Record) bool { uids = append(uids, r.UID); return true }, func(int, error) {})
		got := strings.Join(uids, " ")
		if err != nil || !strings.HasPrefix(got, "before") || !strings.HasSuffix(got, "after") {
			t.Errorf("with room for %d bytes: %q, %v", left, got, err)
		}
	}
}

// A file on a volume that was away is written again when the volume is back, and has all records that were reported as stored.
func TestFileOnAVolumeThatWasAway(t *testing.T) {
	volume := filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(volume, "decisions.jsonl")
	l, err := OpenLines(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Write(t.Context(), line("before")); err != nil {
		t.Fatal(err)
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(volume, volume+".away")
	for range 2 {
		if err := l.Write(t.Context(), line("away")); err == nil {
			t.Fatal("a volume that is away takes records")
		}
	}
	move(volume+".away", volume)
	if err := l.Write(t.Context(), line("after")); err != nil {
		t.Fatal(err)
	}
	older, _ := read(t, path+".1")
	if uids, wrong := read(t, path); strings.Join(append(older, uids...), " ") != "before after" || wrong > 0 {
		t.Errorf("%q after %q", uids, older)
	}
}

// A line that is too long does not hide the records after it: a request can make its record long by what rules say about it.
func TestLongLine(t *testing.T) {
	var out bytes.Buffer
	l := NewLines(&out)
	long := line("long")
	long[0].Message = strings.Repeat("m", 5<<20)
	for _, records := range [][]Record{line("before"), long, line("after")} {
		if err := l.Write(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	out.WriteString(strings.Repeat("a line of a log ", 1<<19) + "\n{\"a\":1}\n\n")
	if err := l.Write(t.Context(), line("last")); err != nil {
		t.Fatal(err)
	}
	out.Truncate(out.Len() - 1) // without a newline
	var uids []string
	var wrong []int
	err := Read(&out, func(r *Record) bool { uids = append(uids, r.UID); return true }, func(line int, err error) { wrong = append(wrong, line) })
	if strings.Join(uids, " ") != "before after last" || len(wrong) != 1 || wrong[0] != 2 || err != nil {
		t.Errorf("%q, lines %d, %v", uids, wrong, err)
	}
}

// Lines of the process's log are no records, whatever the types of their fields.
func TestLinesOfALog(t *testing.T) {
	log := `{"time":"2026-11-02T00:00:00Z","level":"INFO","msg":"caches are filled","policies":12}
{"time":1793577600,"level":"INFO","msg":"x","rules":"r"}
{"schema":"` + Schema + `","uid":"a","duration":"long"}
{"schema":"` + Schema + `","uid":"to`
	var uids []string
	var wrong []int
	err := Read(strings.NewReader(log), func(r *Record) bool { uids = append(uids, r.UID); return true }, func(line int, err error) { wrong = append(wrong, line) })
	if len(uids) > 0 || !slices.Equal(wrong, []int{3, 4}) || err != nil {
		t.Errorf("%q, lines %d, %v", uids, wrong, err)
	}
}

// A byte order mark, which some shells write before a copied log, hides no record.
func TestReadByteOrderMark(t *testing.T) {
	record := `{"schema":"` + Schema + `","time":"2026-11-01T10:00:00Z","uid":"%s","verdict":"refused"}` + "\r\n"
	var uids []string
	err := Read(strings.NewReader("\ufeff"+fmt.Sprintf(record, "u1")+fmt.Sprintf(record, "u2")), func(r *Record) bool { uids = append(uids, r.UID); return true }, func(line int, err error) { t.Error(line, err) })
	if !slices.Equal(uids, []string{"u1", "u2"}) || err != nil {
		t.Errorf("%q, %v", uids, err)
	}
}

// A file that another process moves, deletes or truncates has all records that are stored afterwards, with their requests.
func TestChangedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	l, err := OpenLines(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	body, err := newBody(`{"kind":"Pod"}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"moved":     func() error { return os.Rename(path, path+".old") },
		"deleted":   func() error { return os.Remove(path) },
		"truncated": func() error { return os.Truncate(path, 0) },
		"replaced": func() error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("{}\n"), 0o600))
		},
	} {
		record := line("before")
		record[0].Request = &Request{Object: body}
		if err := l.Write(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		record[0].UID = name
		if err := l.Write(t.Context(), record); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got Record
		if err := Read(bytes.NewReader(text), func(r *Record) bool { got = *r; return true }, func(int, error) {}); err != nil {
			t.Error(err)
		}
		if got.UID != name || got.Request == nil || len(got.Request.Object.Deflated) == 0 {
			t.Errorf("%s: the file has %q", name, text)
		}
	}
}
