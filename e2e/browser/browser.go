package browser

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/devcluster"
)

// Available returns the reason if there is no browser, and nil if there is one.
func Available() error {
	for _, program := range []string{"chromium", "chromedriver"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: Debian's packages chromium and chromium-driver have it", err)
		}
	}
	return nil
}

// Browser is a running Chromium with one tab. Its methods fail the test on errors.
type Browser struct {
	t       testing.TB
	session string // URL
}

// flags of Chromium: no window, and no traffic of its own.
var flags = []string{
	"--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
	"--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-US",
}

// patience is the time limit for Until and for a command.
var patience = devcluster.Patience() / 2

// listens matches the line in which chromedriver prints its port.
var listens = regexp.MustCompile(`started successfully on port (\d+)`)

// Start starts a browser with an empty profile, and stops it at the end of the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ephor-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // t.TempDir would fail the test if a process of Chromium still writes
	log, err := os.Create(filepath.Join(dir, "chromedriver.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	driver := exec.Command("chromedriver", "--port=0")
	driver.Stdout, driver.Stderr = log, log
	if err := driver.Start(); err != nil {
		t.Fatal(err)
	}
	said := func() []byte { text, _ := os.ReadFile(log.Name()); return text }
	t.Cleanup(func() {
		_ = driver.Process.Kill()
		_ = driver.Wait()
		if t.Failed() {
			t.Logf("chromedriver: %s", said())
		}
	})
	args := append([]string{"--user-data-dir=" + filepath.Join(dir, "profile")}, flags...)
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium's sandbox refuses to work for root
	}
	b := &Browser{t: t}
	b.until("chromedriver to be ready", func() error {
		port := listens.FindSubmatch(said())
		if port == nil {
			return errors.New("it has named no port")
		}
		b.session = "http://127.0.0.1:" + string(port[1])
		var status struct{ Ready bool }
		if err := b.try("GET", "/status", nil, &status); err != nil || !status.Ready {
			return fmt.Errorf("not ready: %v", err)
		}
		return nil
	})
	var created struct{ SessionID string }
	b.do("POST", "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"acceptInsecureCerts": true,
		"goog:chromeOptions":  map[string]any{"binary": chromium, "args": args},
		"goog:loggingPrefs":   map[string]any{"browser": "ALL"},
	}}}, &created)
	b.session += "/session/" + created.SessionID
	t.Cleanup(func() {
		if t.Failed() {
			var console []Entry
			err := b.try("POST", "/se/log", map[string]any{"type": "browser"}, &console)
			t.Logf("the browser's console: %v %v", console, err)
		}
		_ = b.try("DELETE", "", nil, nil)
	})
	return b
}

// Open opens an address.
func (b *Browser) Open(url string) {
	b.t.Helper()
	b.do("POST", "/url", map[string]any{"url": url}, nil)
}

// Size sets the size of the visible page in pixels.
func (b *Browser) Size(width, height int) {
	b.t.Helper()
	b.devtools("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

// Scripts enables or disables the scripts of pages. Script and Until work in either case.
func (b *Browser) Scripts(on bool) {
	b.t.Helper()
	b.devtools("Emulation.setScriptExecutionDisabled", map[string]any{"value": !on})
}

// Dark sets the preferred color scheme that the browser reports.
func (b *Browser) Dark(on bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[on]
	b.devtools("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
}

func (b *Browser) devtools(command string, parameters map[string]any) {
	b.t.Helper()
	b.do("POST", "/goog/cdp/execute", map[string]any{"cmd": command, "params": parameters}, nil)
}

// Script runs the body of a JavaScript function and decodes its result into result, which may be nil.
func (b *Browser) Script(result any, body string, args ...any) {
	b.t.Helper()
	if err := b.script(result, body, args); err != nil {
		b.t.Fatal(err)
	}
}

func (b *Browser) script(result any, body string, args []any) error {
	return b.try("POST", "/execute/sync", map[string]any{"script": body, "args": append([]any{}, args...)}, result)
}

// Until waits until the body of a JavaScript function returns true.
func (b *Browser) Until(body string, args ...any) {
	b.t.Helper()
	b.until(body, func() error {
		var got any
		if err := b.script(&got, body, args); err != nil {
			return err
		}
		if got != true {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

func (b *Browser) until(what string, f func() error) {
	b.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	b.t.Fatalf("waited in vain for %s: %v", what, err)
}

// Click clicks on the first element of a CSS selector, like a mouse. An element that covers it is an error.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	b.do("POST", "/element/"+b.element(selector)+"/click", map[string]any{}, nil)
}

// Type types into the first element of a CSS selector. Keys without letters are those of the protocol, such as Enter.
func (b *Browser) Type(selector, text string) {
	b.t.Helper()
	b.do("POST", "/element/"+b.element(selector)+"/value", map[string]any{"text": text}, nil)
}

// Enter is the key Enter.
const Enter = "\ue007"

// Text returns the visible text of the first element of a CSS selector.
func (b *Browser) Text(selector string) (text string) {
	b.t.Helper()
	b.do("GET", "/element/"+b.element(selector)+"/text", nil, &text)
	return text
}

// Screenshot returns the visible page as PNG.
func (b *Browser) Screenshot() []byte {
	b.t.Helper()
	var text string
	b.do("GET", "/screenshot", nil, &text)
	png, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}

// Entry is a line of the browser's console, such as an error of a script or a blocked resource.
type Entry struct{ Level, Message string }

// Console returns the lines of the console since the last call.
func (b *Browser) Console() (entries []Entry) {
	b.t.Helper()
	b.do("POST", "/se/log", map[string]any{"type": "browser"}, &entries)
	return entries
}

// element returns the reference of the first element of a CSS selector.
func (b *Browser) element(selector string) string {
	b.t.Helper()
	found := map[string]string{}
	b.do("POST", "/element", map[string]any{"using": "css selector", "value": selector}, &found)
	for _, id := range found {
		return id
	}
	b.t.Fatalf("no element %s", selector)
	return ""
}

func (b *Browser) do(method, path string, body map[string]any, result any) {
	b.t.Helper()
	if err := b.try(method, path, body, result); err != nil {
		b.t.Fatal(err)
	}
}

var client = &http.Client{Timeout: patience}

// try sends one command of the protocol and decodes the value of the response.
func (b *Browser) try(method, path string, body map[string]any, result any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, b.session+path, content)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var failure struct{ Error, Message string }
		_ = json.Unmarshal(answer.Value, &failure)
		return errors.New(failure.Error + ": " + failure.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, result)
}
