package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// data writes a suite of the tests with the baseline.
func data(t *testing.T, baseline string, tests ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "chainsaw-baseline.tsv"), []byte(baseline), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		path := filepath.Join(dir, "chainsaw", name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, testFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSelection(t *testing.T) {
	dir := data(t, strings.Join([]string{
		"# path\tresult\tpart", "a/one\tpassed\tAdmission", "a/two\tfailed\tAdmission", "ab/three\tpassed\tAdmission", "c/four\tpassed\tlater", "",
	}, "\n"), "a/one", "a/two", "ab/three", "c/four", "a/unknown")
	for _, c := range []struct {
		name string
		selection
		want string
	}{
		{"what is expected", selection{}, "a/one! ab/three!"},
		{"a folder is not a prefix", selection{dirs: []string{"a/"}}, "a/one!"},
		{"one test", selection{dirs: []string{"ab/three"}}, "ab/three!"},
		{"the rest, too", selection{dirs: []string{"a", "c"}, extra: true}, "a/one! a/two c/four a/unknown"},
	} {
		c.parts = []string{"Admission"}
		tests, err := readTests(dir, c.selection)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range tests {
			name := x.path
			if x.expected {
				name += "!"
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}

// Rows that need a network are expected with the part that has one, whatever their own part is.
func TestNetworkRows(t *testing.T) {
	dir := data(t, "a/one\tpassed\tAdmission\na/two\tfailed\tReports\n", "a/one", "a/two")
	rows := readNetwork("# why\na/two\n")
	for _, c := range []struct{ parts, want string }{{"Admission", "a/one"}, {"Admission Images", "a/one a/two"}} {
		tests, err := readTests(dir, selection{parts: strings.Fields(c.parts), network: rows})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range tests {
			got = append(got, x.path)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", c.parts, got, c.want)
		}
		plain, images := split(tests)
		if len(plain) != 1 || len(images) != len(tests)-1 {
			t.Errorf("%s: %d without and %d with a network", c.parts, len(plain), len(images))
		}
	}
	for _, list := range []string{"a/one", "a/gone"} {
		if _, err := readTests(dir, selection{parts: []string{"Images"}, network: readNetwork(list)}); err == nil {
			t.Errorf("%s was accepted", list)
		}
	}
}

func TestMissingTestIsAnError(t *testing.T) {
	if _, err := readTests(data(t, "a/one\tpassed\tAdmission\n"), selection{parts: []string{"Admission"}}); err == nil {
		t.Error("a row without a folder was accepted")
	}
}

func TestExemptions(t *testing.T) {
	dir := data(t, "a/one\tpassed\tAdmission\na/two\tpassed\tAdmission\nc/four\tpassed\tlater\na/five\tfailed\tAdmission\n", "a/one", "a/two", "c/four", "a/five")
	all := selection{parts: []string{"Admission"}}
	for _, c := range []struct{ table, want string }{
		{"# why\na/one\tby luck\n", "exempt: a/one (passed): by luck\n"},
		{"a/one\t\n", "gives no reason"},
		{"a/one\tby luck\na/gone\told\n", "does not list as passed"},
		{"a/five\tfails there, too\n", "does not list as passed"},
		{"c/four\tnot built yet\n", ""},
	} {
		var err error
		s := all
		var tests []*test
		if s.exempt, err = readExemptions(c.table); err == nil {
			tests, err = readTests(dir, s)
		}
		if err != nil {
			if c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: got the error %v, want %q", c.table, err, c.want)
			}
			continue
		}
		for _, x := range tests {
			x.result = passed
		}
		if got := exemptResults(tests); got != c.want {
			t.Errorf("%q: printed %q, want %q", c.table, got, c.want)
		}
		if n := count(tests); len(tests) != 2 || n.expected != 2-strings.Count(c.want, "exempt:") || n.extra != 0 {
			t.Errorf("%q: %d tests run, counted as %+v", c.table, len(tests), n)
		}
	}
}

func TestExemptionsOfThisSuite(t *testing.T) {
	if got, err := readExemptions(exemptions); err != nil || len(got) == 0 {
		t.Errorf("exempt.tsv: %d rows, %v", len(got), err)
	}
}

func TestLastLine(t *testing.T) {
	tests := []*test{
		{expected: true, result: passed}, {expected: true, result: "failed"}, {expected: true, result: passed, alone: true},
		{result: passed}, {result: "failed"},
	}
	if got, want := count(tests).String(), "conformance: 2 of 3 expected passed, 1 failed, 1 extra"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !(tally{expected: 100, alone: 3}).tooManyAlone() || (tally{expected: 100, alone: 2}).tooManyAlone() {
		t.Error("2 % may pass alone, and no more")
	}
}

// Rows that failed in the baseline for other reasons are expected with their part; those that need flags have separate control planes.
func TestMoreRows(t *testing.T) {
	dir := data(t, "a/one\tpassed\tAdmission\na/two\tfailed\tAdmission\na/three\tfailed\tCEL\na/four\tfailed\tAdmission\n", "a/one", "a/two", "a/three", "a/four")
	more, err := readMore("# why\na/two\tadmission-controller:--a=b reports-controller:--c\na/three\na/four\tadmission-controller:--a=b reports-controller:--c\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ parts, want string }{{"Admission", "a/one | a/two a/four"}, {"CEL", "a/three"}, {"Admission CEL", "a/one a/three | a/two a/four"}} {
		tests, err := readTests(dir, selection{parts: strings.Fields(c.parts), more: more})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, group := range byFlags(tests) {
			var paths []string
			for _, x := range group {
				paths = append(paths, x.path)
			}
			got = append(got, strings.Join(paths, " "))
		}
		if strings.Join(got, " | ") != c.want {
			t.Errorf("%s: got %v, want %s", c.parts, got, c.want)
		}
	}
	if got := flagsOf(more["a/two"], "reports-controller"); len(got) != 1 || got[0] != "--c" {
		t.Errorf("the flags are %v", got)
	}
	for _, rows := range []map[string]string{{"a/one": ""}, {"a/gone": ""}} {
		if _, err := readTests(dir, selection{parts: []string{"Admission"}, more: rows}); err == nil {
			t.Errorf("%v was accepted", rows)
		}
	}
	for _, table := range []string{"a/two\t--a", "a/two\tadmission-controller:a"} {
		if _, err := readMore(table); err == nil {
			t.Errorf("%q was accepted", table)
		}
	}
	if rows, err := readMore(moreRows); err != nil || len(rows) == 0 {
		t.Errorf("more.tsv: %d rows, %v", len(rows), err)
	}
}
