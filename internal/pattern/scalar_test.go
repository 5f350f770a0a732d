package pattern

import "testing"

// TestScalarComparison is the table of the policy language.
func TestScalarComparison(t *testing.T) {
	type list = []any
	for _, c := range []struct {
		pattern any
		match   list
		differ  list
	}{
		{true, list{true}, list{false, "true", nil, 1.0}},
		{false, list{false}, list{true, "false", nil, 0.0, ""}},
		{int64(5), list{int64(5), 5.0, "5"}, list{5.5, "5.0", "5m", nil, true, map[string]any{}}},
		{0.5, list{0.5, "0.5", "5e-1"}, list{"500m", int64(0), nil}},
		{5.0, list{int64(5), 5.0, "5", "5.0"}, list{5.5}},
		{nil, list{nil, int64(0), 0.0, "", false}, list{"x", int64(1), true, map[string]any{}, list{}}},
		{"", list{""}, list{nil, "x", int64(0), false}},
		{"*", list{"", "x", int64(0), false, map[string]any{}, list{}}, list{nil}},
		{"?*", list{"x", int64(0), false}, list{nil, "", map[string]any{}, list{}}},
		{"true", list{true, "true"}, list{false, "t"}},
		{"t*", list{true, "tx"}, list{false}},
		{"!false", list{true, "x", int64(3)}, list{false, "false", nil}},
		{"5", list{int64(5), 5.0, "5", "5.0"}, list{int64(6), "5s"}},
		{"512*", list{"512Mi"}, list{"51"}},
		{"!x", list{"y", int64(3), true}, list{"x", nil, map[string]any{}, map[string]any{"a": "b"}, list{list{"y"}}}},
		{"!5", list{int64(4), "x", nil}, list{int64(5), "5.0", map[string]any{}}},
		{"*:*", list{"nginx:1"}, list{"nginx"}},
		{">0 & <10", list{int64(5), "5"}, list{int64(0), int64(10), "a"}},
		{"a | b", list{"a", "b"}, list{"c", nil}},
		{"!a & !b", list{"c"}, list{"a", "b", nil}},
		{"!a | !b", list{"a", "b", "c"}, list{nil}},
		{"0.5", list{"500m", 0.5}, list{"0.6"}},
		{"2024-01-01", list{"2024-01-01"}, list{"2024-01-02"}},
		{"1-2", list{"1-2", int64(1), "2", 1.5}, list{int64(3), "x"}},
		{"v1-v2", list{"v1-v2"}, list{"v1"}},
		{"!*:latest", list{"nginx"}, list{"nginx:latest", nil}},
		{"1000*", list{int64(1000), "1000m"}, list{1000.0}},
		{"1024Mi", list{"1Gi"}, list{"1G"}},
		{"3600s", list{"1h", "60m"}, list{"3600", int64(3600)}},
		{"60", list{int64(60)}, list{"1m"}},
		{"<5", list{nil, int64(4), "4"}, list{int64(5), "a", true}},
		{">=0", list{nil, int64(0)}, list{int64(-1)}},
		{"0-5", list{nil, int64(5)}, list{int64(6)}},
		{"0", list{nil, int64(0), "0", "0s"}, list{int64(1), ""}},
		{">1.2.0", nil, list{"1.2.3", "1.3.0"}},
		{"+2-+4", list{int64(2), int64(4)}, list{int64(5)}},
		{"-10--8", list{int64(-9)}, list{int64(-7)}},
		{"2.5-3.5", list{3.0}, list{2.0}},
		{"100Mi!-1024Mi", list{"50Mi", "2Gi"}, list{"100Mi", "512Mi", "1Gi", "x"}},
		{"!5.10.84-1 & !5.15.5-2", list{"5.16.5-arch1-1"}, list{"5.10.84-1"}},
		{"a |b \n|c", list{"a", "b", "c"}, list{"a "}},
		{"a |", list{"a", ""}, list{nil, "b"}},
	} {
		s := CompileScalar(c.pattern)
		for _, v := range c.match {
			if !s.Match(v) {
				t.Errorf("%#v should match %#v", c.pattern, v)
			}
		}
		for _, v := range c.differ {
			if s.Match(v) {
				t.Errorf("%#v should not match %#v", c.pattern, v)
			}
		}
	}
}

// TestFloatsPrintWithAnExponent tests that a float is written 1E+03 before it is compared with wildcards, so "1000*" does not
// match it while "1*" does. The command line decodes every number as a float.
func TestFloatsPrintWithAnExponent(t *testing.T) {
	for p, want := range map[string]bool{"1000*": false, "1*": true, "1E+03": true, "1000": true} {
		if got := MatchScalar(p, 1000.0); got != want {
			t.Errorf("%q against 1000.0: %v", p, got)
		}
	}
	if !MatchScalar("1000*", int64(1000)) {
		t.Error("a whole number of the cluster is written with digits")
	}
}

// TestZeroAsDuration tests that the whole number 0, the text 0 and a missing value are durations, but the float 0 is not.
func TestZeroAsDuration(t *testing.T) {
	for _, v := range []any{nil, int64(0), "0", "0s"} {
		if !MatchScalar("<=1h", v) {
			t.Errorf("%#v is at most 1h", v)
		}
	}
	for _, v := range []any{0.0, int64(1), 1.0, "1", "x"} {
		if MatchScalar("<=1h", v) {
			t.Errorf("%#v is no duration", v)
		}
	}
}

// TestLoneOperatorIsText tests that a part of one character is compared as text even if it is an operator.
func TestLoneOperatorIsText(t *testing.T) {
	for _, p := range []string{"!", ">", "<"} {
		for _, v := range []any{"x", true, int64(1), nil, ""} {
			if MatchScalar(p, v) {
				t.Errorf("%q matches %#v", p, v)
			}
		}
		if !MatchScalar(p+" | x", p) {
			t.Errorf("%q does not match itself", p)
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	for _, c := range []struct{ p, v any }{
		{"!*:latest", "nginx:1.2.3"}, {"?*", "x"}, {"<=4Gi", "512Mi"}, {"0-5", int64(3)}, {">=1h", "90m"}, {"false", false}, {nil, "x"},
	} {
		s := CompileScalar(c.p)
		if n := testing.AllocsPerRun(100, func() { s.Match(c.v) }); n != 0 {
			t.Errorf("%v against %v: %v allocations", c.p, c.v, n)
		}
	}
}
