package observe

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc/credentials"
)

// Collector is the destination of OTLP.
type Collector struct {
	// Address is host:port.
	Address string
	// TLS is the TLS configuration; nil for a connection without TLS.
	TLS *tls.Config
}

// The interval of the exports, the time limit of an export, and that of the last one.
const (
	exportEvery   = 2 * time.Second
	exportTimeout = 10 * time.Second
	flushTimeout  = 5 * time.Second
)

// Export sends all metrics to a collector every 2 seconds until ctx is done, and then once more. If the collector does not answer, it
// logs that once until the collector answers again.
func (m *Metrics) Export(ctx context.Context, c Collector, log *slog.Logger) error {
	options := []otlpmetricgrpc.Option{
		otlpmetricgrpc.WithEndpoint(c.Address),
		otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}), // no retries: the next export contains all numbers, too
	}
	if c.TLS == nil {
		options = append(options, otlpmetricgrpc.WithInsecure())
	} else {
		options = append(options, otlpmetricgrpc.WithTLSCredentials(credentials.NewTLS(c.TLS)))
	}
	exporter, err := otlpmetricgrpc.New(ctx, options...)
	if err != nil {
		return fmt.Errorf("export metrics to %s: %w", c.Address, err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		_ = exporter.Shutdown(stop)
	}()
	silent := false
	send := func(ctx context.Context, timeout time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err := exporter.Export(ctx, m.resourceMetrics(time.Now()))
		switch {
		case err != nil && !silent:
			log.Warn("the collector of metrics does not answer", "collector", c.Address, "error", err)
		case err == nil && silent:
			log.Info("the collector of metrics answers again", "collector", c.Address)
		}
		silent = err != nil
	}
	ticker := time.NewTicker(exportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			send(context.WithoutCancel(ctx), flushTimeout)
			return nil
		case <-ticker.C:
			send(ctx, exportTimeout)
		}
	}
}

// resourceMetrics returns all metrics in the form of OpenTelemetry.
func (m *Metrics) resourceMetrics(now time.Time) *metricdata.ResourceMetrics {
	scopes := map[string]*metricdata.ScopeMetrics{}
	var names []string
	for _, f := range m.ordered {
		data := f.data(now)
		if data == nil {
			continue
		}
		scope := f.Scope
		if scope == "" {
			scope = scopeName
		}
		if scopes[scope] == nil {
			scopes[scope] = &metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope, Version: scopeVersions[scope]}}
			names = append(names, scope)
		}
		scopes[scope].Metrics = append(scopes[scope].Metrics, metricdata.Metrics{
			Name: wireName(f.Name), Description: f.Help, Unit: conventionUnits[f.Name], Data: data,
		})
	}
	out := &metricdata.ResourceMetrics{Resource: resource.NewSchemaless(
		attribute.String("service.name", "kyverno"), attribute.String("service.version", m.options.Version))}
	for _, n := range names {
		out.ScopeMetrics = append(out.ScopeMetrics, *scopes[n])
	}
	return out
}

// data returns the series of a family, or nil if it has none.
func (f *family) data(now time.Time) metricdata.Aggregation {
	st, rows := f.rows()
	if st.off || len(rows) == 0 {
		return nil
	}
	var labels []string
	for k, name := range f.LabelNames() {
		if st.keep[k] {
			labels = append(labels, name)
		}
	}
	var values []string
	attributes := func(key string) attribute.Set {
		values = split(values, key)
		kvs := make([]attribute.KeyValue, len(values))
		for i, v := range values {
			kvs[i] = wireAttribute(labels[i], v)
		}
		return attribute.NewSet(kvs...)
	}
	switch f.Kind {
	case Counter:
		points := make([]metricdata.DataPoint[int64], len(rows))
		for i, r := range rows {
			points[i] = metricdata.DataPoint[int64]{Attributes: attributes(r.key), StartTime: st.began, Time: now, Value: int64(r.count.Load())}
		}
		return metricdata.Sum[int64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	case Gauge:
		points := make([]metricdata.DataPoint[float64], len(rows))
		for i, r := range rows {
			points[i] = metricdata.DataPoint[float64]{Attributes: attributes(r.key), Time: now, Value: math.Float64frombits(r.sum.Load())}
		}
		return metricdata.Gauge[float64]{DataPoints: points}
	default:
		points := make([]metricdata.HistogramDataPoint[float64], len(rows))
		for i, r := range rows {
			counts, total := make([]uint64, len(r.buckets)), uint64(0)
			for k := range r.buckets {
				counts[k] = r.buckets[k].Load()
				total += counts[k]
			}
			points[i] = metricdata.HistogramDataPoint[float64]{
				Attributes: attributes(r.key), StartTime: st.began, Time: now,
				Count: total, Bounds: r.bounds, BucketCounts: counts, Sum: math.Float64frombits(r.sum.Load()),
			}
		}
		return metricdata.Histogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality}
	}
}
