package decisions

import (
	"bytes"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/devcluster"
)

// A database with decisions contains no byte of a secret value: neither in its files, including the write-ahead log, nor in a dump, nor in
// the results of queries.
func TestPlantedSecretsPostgres(t *testing.T) {
	database := devcluster.NewPostgres(t)
	if database == nil {
		t.Skip("NOT RUN: it needs Debian's package postgresql (apt-get install postgresql)")
	}
	var p planted
	p.searched(t, "the log of the admission controller", recordPlanted(t, &p, "--decisions="+database.Address), true)
	if stored := count(t, database.Address); stored["Secret"] < 4 || stored["Pod"] < 2 || stored["refused"] < 2 {
		t.Errorf("recorded in the database: %v", stored)
	}
	p.searched(t, "the texts of the requests", storedRequests(t, database.Address), true)
	out, err := output("decisions", "-f", database.Address, "-o", "json")
	if err != nil {
		t.Error(err)
	}
	p.searched(t, "decisions of the database", out, true)

	dump, err := database.Dump()
	if err != nil {
		t.Fatal(err)
	}
	p.searched(t, "the dump", dump, true)
	if err := database.Stop(); err != nil {
		t.Fatal(err)
	}
	var files []byte
	if err := filepath.WalkDir(database.Directory(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files = append(files, text...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p.searched(t, "the files of the database", files, true)
	// The recorded text is found in both, which proves that the search works.
	const name = "planted-quote"
	if !bytes.Contains(files, []byte(name)) || !bytes.Contains(dump, []byte(hex.EncodeToString([]byte(name)))) {
		t.Error("the name of a policy is not found: the test proves nothing")
	}
}

// A collector of OpenTelemetry receives no byte of a secret value.
func TestPlantedSecretsOTLP(t *testing.T) {
	collected, port := traces(t)
	var p planted
	p.searched(t, "the log of the admission controller", recordPlanted(t, &p, "--decisions=otlp+insecure://127.0.0.1:"+port), true)
	messages := collected.messages()
	p.searched(t, "what the collector gets", bytes.Join(messages, nil), true)
	// The bodies of the events are lines of a file.
	lines := filepath.Join(t.TempDir(), "decisions.jsonl")
	var bodies []byte
	for _, m := range messages {
		var r collector.ExportLogsServiceRequest
		if err := proto.Unmarshal(m, &r); err != nil {
			t.Fatal(err)
		}
		for _, resource := range r.GetResourceLogs() {
			for _, scope := range resource.GetScopeLogs() {
				for _, l := range scope.GetLogRecords() {
					bodies = append(bodies, l.GetBody().GetStringValue()+"\n"...)
				}
			}
		}
	}
	if err := os.WriteFile(lines, bodies, 0o600); err != nil {
		t.Fatal(err)
	}
	if recorded := count(t, lines); recorded["Secret"] < 4 || recorded["Pod"] < 2 || recorded["refused"] < 2 {
		t.Errorf("recorded by the collector: %v", recorded)
	}
	requests := inflated(t, lines)
	p.searched(t, "the texts of the requests", requests, true)
	if !bytes.Contains(requests, []byte(decision.Redacted)) {
		t.Error("nothing is replaced in the requests: the test proves nothing")
	}
}

// storedRequests returns the texts of all requests of a store.
func storedRequests(t *testing.T, address string) (out []byte) {
	t.Helper()
	s, err := store.OpenReader(address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for after := ""; ; {
		page, err := s.Page(t.Context(), &decision.Query{Requests: true}, after, 500)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Records {
			if page.Records[i].Request == nil {
				continue
			}
			text, err := page.Records[i].Review()
			if err != nil {
				t.Error(err)
			}
			out = append(out, text...)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if !bytes.Contains(out, []byte(decision.Redacted)) {
		t.Error("nothing is replaced in the requests: the test proves nothing")
	}
	return out
}
