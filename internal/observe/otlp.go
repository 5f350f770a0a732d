package observe

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
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
	return m.export(ctx, c, log, flushTimeout)
}

// export is Export with a time limit of the last export.
func (m *Metrics) export(ctx context.Context, c Collector, log *slog.Logger, last time.Duration) error {
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
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
		defer cancel()
		_ = exporter.Shutdown(stop)
	}()
	silent := false
	send := func(ctx context.Context, timeout time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		var err error
		for part := range m.parts(time.Now()) {
			if err = exporter.Export(ctx, part); err != nil {
				break // the other parts would wait for the same collector
			}
		}
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
			send(context.WithoutCancel(ctx), last)
			return nil
		case <-ticker.C:
			send(ctx, exportTimeout)
		}
	}
}

// maxPoints is the number of series in one request. Collectors refuse requests of more than 4 MiB, the default of gRPC, and a series of a
// histogram with long labels takes some kilobytes.
const maxPoints = 500

// parts returns all metrics in the form of OpenTelemetry, in parts of at most maxPoints series.
func (m *Metrics) parts(now time.Time) iter.Seq[*metricdata.ResourceMetrics] {
	return func(yield func(*metricdata.ResourceMetrics) bool) {
		part, points := m.part(), 0
		for _, f := range m.ordered {
			st, rows := f.rows()
			if st.off {
				continue
			}
			for some := range slices.Chunk(rows, maxPoints) {
				if points+len(some) > maxPoints {
					if !yield(part) {
						return
					}
					part, points = m.part(), 0
				}
				f.addTo(part, f.data(now, st, some))
				points += len(some)
			}
		}
		if points > 0 {
			yield(part)
		}
	}
}

// part returns a part without series.
func (m *Metrics) part() *metricdata.ResourceMetrics {
	return &metricdata.ResourceMetrics{Resource: resource.NewSchemaless(
		attribute.String("service.name", "kyverno"), attribute.String("service.version", m.options.Version))}
}

// addTo adds series of the family to a part.
func (f *family) addTo(part *metricdata.ResourceMetrics, data metricdata.Aggregation) {
	scope := cmp.Or(f.Scope, scopeName)
	at := slices.IndexFunc(part.ScopeMetrics, func(s metricdata.ScopeMetrics) bool { return s.Scope.Name == scope })
	if at < 0 {
		at = len(part.ScopeMetrics)
		part.ScopeMetrics = append(part.ScopeMetrics, metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope, Version: scopeVersions[scope]}})
	}
	part.ScopeMetrics[at].Metrics = append(part.ScopeMetrics[at].Metrics, metricdata.Metrics{
		Name: wireName(f.Name), Description: f.Help, Unit: conventionUnits[f.Name], Data: data,
	})
}

// data returns some series of a family.
func (f *family) data(now time.Time, st *state, rows []row) metricdata.Aggregation {
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
