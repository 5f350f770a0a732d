package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/rollout"
	"ephor.invalid/ephor/internal/value"
)

// prometheus is a server with the HTTP API of Prometheus.
type prometheus struct{ url, tokenFile string }

const (
	// maxAnswer limits the size of a response, in bytes, and askTimeout the time to wait for it.
	maxAnswer  = 16 << 20
	askTimeout = 30 * time.Second
)

// query returns the current result of a query, as a vector.
func (p prometheus) query(ctx context.Context, query string) ([]rollout.Sample, error) {
	base, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("%q is not an address such as http://localhost:9090", p.url)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	form := url.Values{"query": {query}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base.JoinPath("api/v1/query").String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if p.tokenFile != "" {
		token, err := os.ReadFile(p.tokenFile)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxAnswer {
		return nil, errors.New("the answer is larger than 16 MiB")
	}
	return samples(response.Status, text)
}

// samples parses a response. Errors in a query are returned as JSON, too, with status 400.
func samples(status string, text []byte) ([]rollout.Sample, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  []any
			}
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status == "" {
		return nil, fmt.Errorf("not a response of a Prometheus server (%s): %q", status, value.Clip(string(text), 200))
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %q", status, value.Clip(answer.Error, 500))
	}
	if answer.Data.ResultType != "vector" {
		return nil, fmt.Errorf("the response is a %q, not a vector", value.Clip(answer.Data.ResultType, 50))
	}
	out := make([]rollout.Sample, 0, len(answer.Data.Result))
	for _, r := range answer.Data.Result {
		if len(r.Value) != 2 {
			return nil, errors.New("a sample in the response has no value")
		}
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("a sample in the response is not a number: %q", value.Clip(text, 50))
		}
		out = append(out, rollout.Sample{Labels: r.Metric, Value: v})
	}
	return out, nil
}
