package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/decision"
)

// Limits for a page from a server: its size in bytes, and the number of attempts when the server reports too many requests.
const (
	maxAnswer   = 256 << 20
	maxAttempts = 60
)

// DecisionServer holds the flags for a dashboard that serves decisions.
type DecisionServer struct {
	// Address is empty if there is no dashboard.
	Address                 string
	tokenFile, caFile, name string
	// Kubeconfig and Context select the kubeconfig that holds the token, if no token file is given; empty means the default ones.
	Kubeconfig, Context string
}

// AddFlags adds the flags for the dashboard.
func (o *DecisionServer) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Address, "server", "", "address of a dashboard that shows decisions, such as https://127.0.0.1:8443, instead of files")
	f.StringVar(&o.tokenFile, "token-file", "", "file with the bearer token for --server; by default the token of the kubeconfig, if it has one")
	f.StringVar(&o.caFile, "certificate-authority", "", "file with the certificate authorities that verify --server; by default those of the system")
	f.StringVar(&o.name, "tls-server-name", "", "expected name in the certificate of --server; by default the host of the address")
}

// Pages returns the function that reads pages from the server. It calls unasked once if the server left out namespaces, because there are
// too many to check the user's rights for each.
func (o *DecisionServer) Pages(unasked func(namespaces int)) (decision.Pages, error) {
	u, err := url.Parse(o.Address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("--server: %q is not the address of a dashboard, such as https://127.0.0.1:8443", o.Address)
	}
	login, err := o.login()
	if err != nil {
		return nil, err
	}
	if o.tokenFile != "" && u.Scheme == "http" {
		return nil, errors.New("--server: a token is sent over https only")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.name}
	if o.caFile != "" {
		text, err := os.ReadFile(o.caFile)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", o.caFile)
		}
	}
	transport, err := rest.HTTPWrappersForConfig(login, &http.Transport{TLSClientConfig: c, Proxy: http.ProxyFromEnvironment})
	if err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport: transport, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this server
	}
	warned := false
	return func(ctx context.Context, q *decision.Query, after string, limit int) (decision.Page, error) {
		at := *u
		at.Path, at.RawQuery = strings.TrimSuffix(u.Path, "/")+"/api/v1/decisions", parameters(q, after, limit).Encode()
		var answer struct {
			decision.Page
			Unasked int    `json:"unasked"`
			Error   string `json:"error"`
		}
		status, err := getJSON(ctx, client, at.String(), &answer)
		switch {
		case err != nil:
			return answer.Page, err
		case status == http.StatusNotFound:
			return answer.Page, &RefusedError{o.Address + " shows no decisions: the reports controller keeps none (--decisionsStore)"}
		case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
			return answer.Page, &RefusedError{fmt.Sprintf("%s answers %d: %s", o.Address, status, terminal.Plain(answer.Error))}
		case status != http.StatusOK:
			return answer.Page, fmt.Errorf("%s answers %d: %s", o.Address, status, terminal.Plain(answer.Error))
		case answer.Unasked > 0 && !warned:
			warned = true
			unasked(answer.Unasked)
		}
		return answer.Page, nil
	}, nil
}

// RefusedError is an answer of a dashboard that another attempt would get again.
type RefusedError struct{ Text string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Text }

// login returns where the bearer token comes from: a file, which is read again when it is replaced, a kubeconfig, or the program that it names.
func (o *DecisionServer) login() (*rest.Config, error) {
	if o.tokenFile != "" {
		if _, err := os.Stat(o.tokenFile); err != nil {
			return nil, err
		}
		return &rest.Config{BearerTokenFile: o.tokenFile}, nil
	}
	if strings.HasPrefix(o.Address, "http:") {
		return &rest.Config{}, nil
	}
	config, err := Config(o.Kubeconfig, o.Context)
	if err != nil {
		if o.Kubeconfig != "" || o.Context != "" {
			return nil, err
		}
		return &rest.Config{}, nil // a dashboard on loopback requires no token
	}
	return &rest.Config{
		BearerToken: config.BearerToken, BearerTokenFile: config.BearerTokenFile, ExecProvider: config.ExecProvider,
		Host: config.Host, TLSClientConfig: config.TLSClientConfig, // for programs that ask about the cluster
	}, nil
}

// getJSON reads a response as JSON.
func getJSON(ctx context.Context, c *http.Client, address string, to any) (status int, err error) {
	for attempt := 1; ; attempt++ {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return 0, err
		}
		answer, err := c.Do(r)
		if err != nil {
			return 0, err
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
		_ = answer.Body.Close()
		if err != nil {
			return 0, err
		}
		if len(text) > maxAnswer {
			return 0, fmt.Errorf("a response is longer than %d bytes", maxAnswer)
		}
		if answer.StatusCode == http.StatusTooManyRequests && attempt < maxAttempts {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Second):
			}
			continue
		}
		if err := json.Unmarshal(text, to); err != nil && answer.StatusCode == http.StatusOK {
			return 0, fmt.Errorf("the answer cannot be read: %w", err)
		}
		return answer.StatusCode, nil
	}
}

// parameters returns the query parameters of a page.
func parameters(q *decision.Query, after string, limit int) url.Values {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, values := range map[string][]string{"policy": q.Policies, "namespace": q.Namespaces, "user": q.Users, "kind": q.Kinds} {
		if len(values) > 0 {
			v[name] = values
		}
	}
	for _, verdict := range q.Verdicts {
		v.Add("verdict", string(verdict))
	}
	given := map[string]string{"uid": q.UID, "after": after}
	if q.Requests {
		given["requests"] = "true"
	}
	if q.Oldest {
		given["order"] = "oldest"
	}
	for name, text := range given {
		if text != "" {
			v.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v
}
