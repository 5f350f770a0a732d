package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/kubeversion"
)

// shareAge is the age at which a noted time is renewed.
const (
	shareAge       = 2 * time.Minute
	versionTimeout = 5 * time.Second
)

// NewServers returns a Servers for the API servers of cfg. The replicas share what they see in a Lease of the namespace.
func NewServers(cfg *rest.Config, namespace string, log *slog.Logger) (*Servers, error) {
	ask, err := askVersion(cfg)
	if err != nil {
		return nil, err
	}
	leases, err := coordinationclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &Servers{Ask: ask, Share: sharedVersions{leases.Leases(namespace)}.exchange, Now: time.Now, Log: log}, nil
}

// askVersion returns a function that asks for the version over a new connection, so that every API server behind the address answers in turn.
func askVersion(cfg *rest.Config) (func(context.Context) (kubeversion.Minor, error), error) {
	own := rest.CopyConfig(cfg)
	own.Timeout, own.Dial = versionTimeout, (&net.Dialer{Timeout: versionTimeout}).DialContext // a transport of its own
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, err
	}
	url := base.JoinPath("version").String()
	return func(ctx context.Context) (kubeversion.Minor, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer utilnet.CloseIdleConnectionsFor(client.Transport)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("GET /version: %s", resp.Status)
		}
		var info apimachineryversion.Info
		if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&info); err != nil {
			return 0, fmt.Errorf("GET /version: %w", err)
		}
		v, ok := kubeversion.Of(info.Major, info.Minor)
		if !ok {
			return 0, fmt.Errorf("the API server has an unknown version %s.%s", info.Major, info.Minor)
		}
		return v, nil
	}, nil
}

// leaseClient is the part of a client for Leases that sharedVersions needs.
type leaseClient interface {
	Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(context.Context, *coordinationv1.Lease, metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// sharedVersions shares the versions of API servers with the other replicas.
type sharedVersions struct{ leases leaseClient }

// exchange writes what this replica saw, unless another one wrote it recently, and returns what all replicas wrote. A write that conflicts with
// that of another replica is repeated in the next round.
func (s sharedVersions) exchange(ctx context.Context, seen map[kubeversion.Minor]time.Time) (map[kubeversion.Minor]time.Time, error) {
	lease, err := s.leases.Get(ctx, ServersLease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: ServersLease, Annotations: map[string]string{ServersAnnotation: noted(seen)}}}
		if _, err = s.leases.Create(ctx, lease, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return seen, err
	}
	if err != nil {
		return nil, fmt.Errorf("read the Lease %s: %w", ServersLease, err)
	}
	all := versionsIn(lease)
	latest := newest(seen).Add(answerCounts)
	maps.DeleteFunc(all, func(_ kubeversion.Minor, at time.Time) bool { return at.After(latest) }) // by a clock that was ahead
	renew := false
	for v, at := range seen {
		if at.Sub(all[v]) > shareAge {
			all[v], renew = at, true
		}
	}
	if !renew {
		return all, nil
	}
	lease = lease.DeepCopy()
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[ServersAnnotation] = noted(all)
	if _, err := s.leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return all, fmt.Errorf("write the Lease %s: %w", ServersLease, err)
	}
	return all, nil
}

// staleVersion is the age of times that are no longer noted.
const staleVersion = time.Hour

// noted returns the text of the annotation.
func noted(seen map[kubeversion.Minor]time.Time) string {
	last, out := newest(seen), map[string]string{}
	for v, at := range seen {
		if last.Sub(at) < staleVersion {
			out[v.String()] = at.UTC().Format(time.RFC3339)
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "" // texts always have a form in JSON
	}
	return string(text)
}

// newest returns the last of the times.
func newest(seen map[kubeversion.Minor]time.Time) (last time.Time) {
	for _, at := range seen {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// versionsIn returns the times that a Lease notes. It passes over what it cannot read, which the next write replaces.
func versionsIn(lease *coordinationv1.Lease) map[kubeversion.Minor]time.Time {
	out := map[kubeversion.Minor]time.Time{}
	var texts map[string]string
	if err := json.Unmarshal([]byte(lease.Annotations[ServersAnnotation]), &texts); err != nil {
		return out
	}
	for text, at := range texts {
		v, err := kubeversion.Parse(text)
		when, more := time.Parse(time.RFC3339, at)
		if errors.Join(err, more) == nil {
			out[v] = when
		}
	}
	return out
}
