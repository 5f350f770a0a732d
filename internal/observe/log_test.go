package observe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC)
	for _, c := range []struct {
		options LogOptions
		want    string
	}{
		{LogOptions{Format: "text"}, `time=2026-03-04T05:06:07.008Z level=INFO msg="policy in force" policy=x`},
		{LogOptions{Format: "json"}, `{"time":"2026-03-04T05:06:07.008Z","level":"INFO","msg":"policy in force","policy":"x"}`},
		{LogOptions{Format: "json", Times: "iso8601"}, `{"time":"2026-03-04T05:06:07.008Z","level":"INFO","msg":"policy in force","policy":"x"}`},
		{LogOptions{Format: "json", Times: "rfc3339"}, `{"time":"2026-03-04T05:06:07Z","level":"INFO","msg":"policy in force","policy":"x"}`},
		{LogOptions{Format: "json", Times: "rfc3339nano"}, `{"time":"2026-03-04T05:06:07.008Z","level":"INFO","msg":"policy in force","policy":"x"}`},
		{LogOptions{Format: "json", Times: "millis"}, `{"time":1772600767008,"level":"INFO","msg":"policy in force","policy":"x"}`},
		{LogOptions{Format: "json", Times: "nanos"}, `{"time":1772600767008000000,"level":"INFO","msg":"policy in force","policy":"x"}`},
		{LogOptions{Format: "json", Times: "epoch"}, `{"time":1772600767.008,"level":"INFO","msg":"policy in force","policy":"x"}`},
		{LogOptions{Format: "text", Times: "rfc3339", Color: true}, "time=2026-03-04T05:06:07Z level=\x1b[32mINFO\x1b[0m msg=\"policy in force\" policy=x"},
	} {
		var b bytes.Buffer
		h, err := NewHandler(&b, c.options)
		if err != nil {
			t.Fatal(err)
		}
		r := slog.NewRecord(at, slog.LevelInfo, "policy in force", 0)
		r.AddAttrs(slog.String("policy", "x"))
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(b.String()); got != c.want {
			t.Errorf("%+v:\n%s, want\n%s", c.options, got, c.want)
		}
	}
	for _, o := range []LogOptions{{Format: "xml"}, {Format: "text", Times: "noon"}} {
		if _, err := NewHandler(&bytes.Buffer{}, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// Up to verbosity 3, the log contains what operators need. From 4 on, it also contains slog's Debug and the libraries' V(4), and from 6 on
// V(6).
func TestVerbosity(t *testing.T) {
	for _, c := range []struct {
		verbosity int
		level     slog.Level
		want      bool
	}{
		{0, slog.LevelInfo, true}, {2, slog.LevelInfo, true}, {2, slog.LevelDebug, false}, {3, -1, false},
		{4, slog.LevelDebug, true}, {4, -5, false}, {6, -6, true},
	} {
		h, err := NewHandler(&bytes.Buffer{}, LogOptions{Format: "text", Verbosity: c.verbosity})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Enabled(t.Context(), c.level); got != c.want {
			t.Errorf("-v %d, level %d: %v", c.verbosity, c.level, got)
		}
	}
}
