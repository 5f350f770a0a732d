package decisions

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
)

func run(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func records(n int) (out []decision.Record) {
	for i := range n {
		out = append(out, decision.Record{
			Schema: decision.Schema, Time: time.Date(2026, 11, 1, 0, 0, i, 0, time.UTC), UID: fmt.Sprintf("uid-%d", i), Namespace: fmt.Sprintf("team-%d", i%2), Kind: "Pod", Name: "web", Operation: "CREATE",
			Verdict: decision.Refused, Share: 1, User: "jane", Rules: []decision.Result{{Policy: "require-team", Rule: "check", Status: "fail", Action: "Enforce", Message: "no team"}},
		})
	}
	return out
}

// The commands read a store in a file page by page, from the newest record to the oldest.
func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s, err := store.NewSQLite(path, store.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Write(t.Context(), records(2*pageRecords+10)); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, New(nil), "-f", "sqlite:"+path, "-n", "team-1", "-o", "json")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); err != nil || len(lines) != pageRecords+5 || !strings.Contains(lines[0], fmt.Sprintf("uid-%d\"", 2*pageRecords+9)) {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	out, err = run(t, New(nil), "-f", "sqlite:"+path, "--limit", "2", "--policy", "require-*")
	if err != nil || !strings.Contains(out, "team-1/Pod/web") || !strings.Contains(out, "and 1008 more") {
		t.Errorf("%s, %v", out, err)
	}
	out, err = run(t, NewWhy(nil), "uid-7", "-f", "sqlite:"+path)
	if err != nil || !strings.Contains(out, "message: no team") || !strings.Contains(out, "team-1/Pod/web by jane") {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := run(t, New(nil), "erase", "jane", "--store", "sqlite:"+path); err == nil {
		t.Error("a store that is open is changed")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, New(nil), "erase", "jane", "--store", "sqlite:"+path); err != nil || out != "1010 decisions are deleted\n" {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run(t, New(nil), "-f", "sqlite:"+path, "-o", "json"); err != nil || !strings.HasPrefix(out, "warning: nothing was checked: no record is selected (") {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := run(t, New(nil), "erase", "jane", "--store", "sqlite:"+path+".none"); err == nil {
		t.Error("a user is erased from a file that does not exist")
	}
	if _, err := run(t, New(nil), "erase", "jane", "--store", "stdout"); err == nil {
		t.Error("stdout is a store")
	}
	if _, err := run(t, New(nil), "-f", "sqlite:"+path+".none"); err == nil {
		t.Error("a file that does not exist is a store")
	}
}

// The commands query a dashboard with a token, and send their selection with the query.
func TestServer(t *testing.T) {
	const token = "the-token"
	var asked []string
	dashboard := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/decisions" {
			http.NotFound(w, r)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"a bearer token is required"}`)
			return
		}
		asked = append(asked, r.URL.Query().Encode()) // a command sends its requests one after the other
		all, next := records(3), "2"
		if r.URL.Query().Get("after") == "2" {
			all, next = all[2:], ""
		} else {
			all = all[:2]
		}
		_ = json.NewEncoder(w).Encode(decision.Page{Records: all, Next: next})
	}))
	defer dashboard.Close()
	dir := t.TempDir()
	tokens, authority := filepath.Join(dir, "token"), filepath.Join(dir, "ca")
	if err := os.WriteFile(tokens, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(authority, pemOf(dashboard), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "wrong")
	if err := os.WriteFile(wrong, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--server", dashboard.URL, "--token-file", tokens, "--certificate-authority", authority}
	out, err := run(t, New(nil), append(flags, "-o", "csv", "--policy", "p*", "-n", "a,b", "--user", "jane", "--kind", "Pod", "--verdict", "refused")...)
	if err != nil || strings.Count(out, "uid-") != 3 {
		t.Errorf("%s, %v", out, err)
	}
	if want := "kind=Pod&limit=500&namespace=a&namespace=b&policy=p%2A&user=jane&verdict=refused"; len(asked) != 2 || asked[0] != want || asked[1] != "after=2&"+want {
		t.Errorf("%q", asked)
	}
	out, err = run(t, NewWhy(nil), append([]string{"uid-1"}, flags...)...)
	if err != nil || !strings.Contains(asked[2], "uid=uid-1") {
		t.Errorf("%s, %v", out, err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"another token":        {[]string{"--server", dashboard.URL, "--token-file", wrong, "--certificate-authority", authority}, "a bearer token is required"},
		"an unknown authority": {[]string{"--server", dashboard.URL, "--token-file", tokens}, "certificate"},
		"no TLS":               {[]string{"--server", "http://127.0.0.1:1", "--token-file", tokens}, "over https only"},
		"both":                 {append(flags, "-f", tokens), "do not go together"},
		"no address":           {[]string{"--server", "127.0.0.1:1"}, "not the address"},
		"no decisions":         {[]string{"--server", dashboard.URL + "/elsewhere", "--token-file", tokens, "--certificate-authority", authority}, "shows no decisions"},
	} {
		if _, err := run(t, New(nil), c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	for name, user := range map[string]string{
		"a token":      `{"token": "` + token + `"}`,
		"a token file": `{"tokenFile": "` + tokens + `"}`,
		"a program":    `{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "sh", "args": ["-c", "printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}' ` + token + `"]}}`,
	} {
		text := `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
			"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "u", "user": ` + user + `}]}`
		if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBECONFIG", kubeconfig)
		out, err := run(t, New(nil), "--server", dashboard.URL, "--certificate-authority", authority)
		if err != nil || !strings.Contains(out, "uid-1") {
			t.Errorf("%s in the kubeconfig: %s, %v", name, out, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := New(nil)
	cmd.SetArgs(flags)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.ExecuteContext(ctx); err == nil {
		t.Error("a command that was ended goes on")
	}
}

// seen is the output of a command so far.
type seen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *seen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// wait waits until the command has written this number of records.
func (s *seen) wait(t *testing.T, records int) string {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		text := s.text.String()
		s.mu.Unlock()
		if n := strings.Count(text, "uid-"); n == records {
			return text
		} else if n > records || time.Now().After(until) {
			t.Fatalf("%d records, want %d: %s", n, records, text)
		}
	}
}

// A server and a store are followed: each new record is shown once, even if it arrives late.
func TestFollowStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	s, err := store.NewSQLite(path, store.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := records(2*pageRecords + 30)
	late := all[2*pageRecords+20 : 2*pageRecords+25]
	write := func(records []decision.Record) {
		t.Helper()
		if err := s.Write(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	write(all[:2*pageRecords+10])
	dashboard := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &decision.Query{Oldest: r.URL.Query().Get("order") == "oldest"}
		if since := r.URL.Query().Get("since"); since != "" {
			q.Since, _ = time.Parse(time.RFC3339Nano, since)
		}
		page, err := s.Page(r.Context(), q, r.URL.Query().Get("after"), pageRecords)
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer dashboard.Close()
	dir := t.TempDir()
	authority, token := filepath.Join(dir, "ca"), filepath.Join(dir, "token")
	if err := errors.Join(os.WriteFile(authority, pemOf(dashboard), 0o600), os.WriteFile(token, []byte("the-token"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var outs []*seen
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var following sync.WaitGroup
	for _, args := range [][]string{{"-f", "sqlite:" + path}, {"--server", dashboard.URL, "--certificate-authority", authority, "--token-file", token}} {
		out := &seen{}
		outs = append(outs, out)
		cmd := New(nil)
		cmd.SetOut(out)
		cmd.SetErr(out)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(args, "-o", "csv", "--follow"))
		following.Go(func() {
			if err := cmd.ExecuteContext(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, out := range outs {
		out.wait(t, 2*pageRecords+10)
	}
	write(all[2*pageRecords+25:])
	for _, out := range outs {
		out.wait(t, 2*pageRecords+15)
	}
	write(late)
	for _, out := range outs {
		text := out.wait(t, 2*pageRecords+20)
		if !strings.Contains(text, late[0].UID) {
			t.Errorf("%s", text[:min(len(text), 1000)])
		}
	}
	stop()
	following.Wait()
	if _, err := run(t, New(nil), "-f", "a", "-f", "b", "--follow"); err == nil {
		t.Error("two files are followed")
	}
}

// pemOf returns the certificate of a server.
func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
