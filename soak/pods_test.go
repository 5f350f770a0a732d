package soak

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/bench/load"
)

// denied is in the answer to a violating Pod, unavailable in the answer to any Pod if no webhook could be called.
const (
	denied       = "denied the request"
	deniedItself = "denied request:" // by a policy of the API server
	unavailable  = "failed calling webhook"
)

// podClient creates Pods through the API server, with server-side dry run: everything happens but the write to etcd. It has low cost, since
// it shares the machine with the measured processes: the bodies are encoded once, the connections stay open, and answers are not decoded.
type podClient struct {
	url        string
	http       []*http.Client // a connection each
	clean, bad []byte
}

func (p *installation) podClient(clients int) *podClient {
	p.Helper()
	trusted, err := rest.TLSConfigFor(p.Config) // with the certificate of the administrator
	if err != nil {
		p.Fatal(err)
	}
	c := &podClient{
		url:   p.Config.Host + "/api/v1/namespaces/default/pods?dryRun=All",
		clean: load.JSON(load.Pod("shop", false)), bad: load.JSON(load.Pod("shop", true)),
	}
	for range clients {
		c.http = append(c.http, &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			TLSClientConfig: trusted.Clone(), MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1,
			TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		}})
	}
	return c
}

// create sends one Pod on the connection of a client. refusal is the API server's reason for a denial.
func (c *podClient) create(client int, body []byte) (refusal string, err error) {
	req, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http[client].Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		_, err = io.Copy(io.Discard, resp.Body)
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var status struct{ Message string }
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = string(text)
	}
	return fmt.Sprintf("%d: %s", resp.StatusCode, status.Message), nil
}

// enforced returns an error while the policies are not enforced.
func (c *podClient) enforced() error {
	if refusal, err := c.create(0, c.clean); err != nil || refusal != "" {
		return fmt.Errorf("a clean Pod is refused: %s (%v)", refusal, err)
	}
	refusal, err := c.create(0, c.bad)
	switch {
	case err != nil:
		return err
	case refusal == "":
		return fmt.Errorf("a violating Pod is admitted")
	case !strings.Contains(refusal, denied) && !strings.Contains(refusal, deniedItself):
		return fmt.Errorf("a violating Pod is refused for another reason: %s", refusal)
	}
	return nil
}

// rate creates clean Pods with all clients for a while, and returns how many were created per second.
func (c *podClient) rate(d time.Duration) (float64, error) {
	var mu sync.Mutex
	var created int
	var failed error
	var wg sync.WaitGroup
	begin := time.Now()
	for k := range c.http {
		wg.Go(func() {
			n := 0
			for time.Since(begin) < d {
				refusal, err := c.create(k, c.clean)
				if err == nil && refusal != "" {
					err = fmt.Errorf("a clean Pod is refused: %s", refusal)
				}
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					break
				}
				n++
			}
			mu.Lock()
			created += n
			mu.Unlock()
		})
	}
	wg.Wait()
	return float64(created) / time.Since(begin).Seconds(), failed
}

// refusal is a clean Pod that was denied, or whose request failed.
type refusal struct {
	asked, answered time.Time
	text            string
}

// podCounts are the results of storm.
type podCounts struct {
	mu              sync.Mutex
	clean, bad      int
	admitted        []time.Time // violating Pods
	refused         []refusal   // clean Pods
	unavailableBad  int         // violating Pods that were refused because no webhook could be asked
	otherRefusalBad []string
}

// storm creates clean and violating Pods in turn with all clients until the returned function is called.
func (c *podClient) storm() (finish func() *podCounts) {
	ctx, cancel := context.WithCancel(context.Background())
	counts := &podCounts{}
	var wg sync.WaitGroup
	for k := range c.http {
		wg.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				text, err := c.create(k, c.clean)
				if err != nil {
					text = "no answer: " + err.Error()
				}
				counts.mu.Lock()
				counts.clean++
				if text != "" {
					counts.refused = append(counts.refused, refusal{asked, time.Now(), text})
				}
				counts.mu.Unlock()

				text, err = c.create(k, c.bad)
				counts.mu.Lock()
				counts.bad++
				switch {
				case err != nil:
					counts.otherRefusalBad = append(counts.otherRefusalBad, err.Error())
				case text == "":
					counts.admitted = append(counts.admitted, time.Now())
				case strings.Contains(text, denied):
				case strings.Contains(text, unavailable):
					counts.unavailableBad++
				default:
					counts.otherRefusalBad = append(counts.otherRefusalBad, text)
				}
				counts.mu.Unlock()
			}
		})
	}
	return func() *podCounts {
		cancel()
		wg.Wait()
		slices.SortFunc(counts.refused, func(a, b refusal) int { return a.answered.Compare(b.answered) })
		return counts
	}
}

// repeat calls f after each pause, until stop is closed.
func repeat(stop <-chan struct{}, pause time.Duration, f func()) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(pause):
			f()
		}
	}
}
