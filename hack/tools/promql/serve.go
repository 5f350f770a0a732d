package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// server is a Prometheus for a test: it scrapes pages and answers instant queries, and stores nothing on disk.
type server struct {
	mu     sync.Mutex
	store  *store
	engine *promql.Engine
}

// serve scrapes the targets (job=URL) repeatedly, and answers /api/v1/query on address until it is killed.
func serve(address string, every time.Duration, targets []string) error {
	s := &server{store: &store{}, engine: newEngine()}
	for _, target := range targets {
		job, url, ok := strings.Cut(target, "=")
		if !ok {
			return fmt.Errorf("%s: want job=URL", target)
		}
		go s.follow(job, url, every)
	}
	http.HandleFunc("/api/v1/query", s.query)
	return http.ListenAndServe(address, nil)
}

func (s *server) follow(job, url string, every time.Duration) {
	for {
		if err := s.scrape(job, url); err != nil {
			fmt.Printf("%s: %v\n", url, err)
		}
		time.Sleep(every)
	}
}

func (s *server) scrape(job, url string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.add(job, page, time.Now())
}

// query answers as Prometheus does, for vectors.
func (s *server) query(w http.ResponseWriter, r *http.Request) {
	vector, err := s.vector(r.Context(), r.FormValue("query"))
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "bad_data", "error": err.Error()})
		return
	}
	result := []any{}
	for _, one := range vector {
		result = append(result, map[string]any{
			"metric": one.Metric.Map(),
			"value":  []any{float64(one.T) / 1000, strconv.FormatFloat(one.F, 'f', -1, 64)},
		})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
}

func (s *server) vector(ctx context.Context, query string) (promql.Vector, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ask, err := s.engine.NewInstantQuery(ctx, s.store, nil, query, time.Now())
	if err != nil {
		return nil, err
	}
	defer ask.Close()
	return ask.Exec(ctx).Vector()
}
