package ephemeral

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
	reportsv1 "github.com/ephor-dev/ephor/api/reports/v1"
	"github.com/ephor-dev/ephor/internal/seal"
)

// SealAnnotation holds the proof that a controller of Ephor wrote the report as it is: when, in seconds since 1970, a space, and
// a seal of package seal.
const SealAnnotation = "ephor.dev/report-seal"

// sealDomain is the domain of the seals.
const sealDomain = "ephemeral-report"

// Tolerance is how far the clocks of the controllers and of the API server may be apart.
const Tolerance = 2 * time.Minute

// Why a report is not believed. They are the values of a metric's label.
var (
	// ErrUnsealed: it carries no seal, as the reports of another program.
	ErrUnsealed = errors.New("no seal")
	// ErrOtherKey: it was sealed with a key that is gone, or never existed.
	ErrOtherKey = errors.New("unknown key")
	// ErrForged: it says something else than what was sealed.
	ErrForged = errors.New("forged")
	// ErrReplayed means that the object was created or deleted after it was sealed: another client wrote an old report
	// again.
	ErrReplayed = errors.New("replayed")
)

// Keys are those that reports are sealed with. A keystore.Cached is such Keys.
type Keys interface {
	Ring(context.Context) (*seal.Keyring, error)
	// Fresh is Ring after another look, which is worth it when a seal names an unknown key.
	Fresh(context.Context) (*seal.Keyring, error)
}

// sealReport marks the report as written by us at the time.
func sealReport(ring *seal.Keyring, o client.Object, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	notes := maps.Clone(o.GetAnnotations())
	if notes == nil {
		notes = map[string]string{}
	}
	notes[SealAnnotation] = at + " " + ring.Seal(sealDomain, claim(o, at)...)
	o.SetAnnotations(notes)
}

// Check returns nil when one of our controllers wrote the report as it is: an EphemeralReport or ClusterEphemeralReport that was
// read from the API server. Otherwise it returns one of the errors above with doubt set, or what kept it from being checked.
func Check(ctx context.Context, keys Keys, o client.Object) (doubt bool, err error) {
	at, text, ok := strings.Cut(o.GetAnnotations()[SealAnnotation], " ")
	if !ok {
		return true, ErrUnsealed
	}
	ring, err := keys.Ring(ctx)
	if err != nil {
		return false, err
	}
	parts := claim(o, at)
	err = ring.Check(text, sealDomain, parts...)
	if errors.Is(err, seal.ErrUnknownKey) {
		if ring, err = keys.Fresh(ctx); err != nil {
			return false, err
		}
		if err = ring.Check(text, sealDomain, parts...); errors.Is(err, seal.ErrUnknownKey) {
			return true, ErrOtherKey
		}
	}
	if err != nil {
		return true, ErrForged
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return true, ErrForged // we sealed a number
	}
	latest := time.Unix(seconds, 0).Add(Tolerance)
	if gone := o.GetDeletionTimestamp(); latest.Before(o.GetCreationTimestamp().Time) || gone != nil && latest.Before(gone.Time) {
		return true, ErrReplayed
	}
	return false, nil
}

// claim is all that is read of a report.
func claim(o client.Object, at string) []string {
	kind, spec := "ClusterEphemeralReport", (*reportsv1.EphemeralReportSpec)(nil)
	switch o := o.(type) {
	case *reportsv1.EphemeralReport:
		kind, spec = "EphemeralReport", &o.Spec
	case *reportsv1.ClusterEphemeralReport:
		spec = &o.Spec
	}
	r, plural := Subject(o)
	return []string{
		kind, o.GetNamespace(), o.GetName(), o.GetLabels()[SourceLabel], at,
		r.APIVersion, r.Kind, r.Name, r.UID, plural, digest(spec.Results),
	}
}

// digest stands for the results. What results about several resources hold besides is not read, and not covered.
func digest(results []policyreport.Result) string {
	size := 0
	for i := range results {
		size += typicalResult + len(results[i].Message)
	}
	d := digester(make([]byte, 0, size))
	d.number(int64(len(results)))
	var keys []string
	for i := range results {
		r := &results[i]
		for _, t := range [...]string{r.Source, r.Policy, r.Rule, r.Message, string(r.Result), r.Category, string(r.Severity)} {
			d.text(t)
		}
		scored := int64(0)
		if r.Scored {
			scored = 1
		}
		for _, n := range [...]int64{scored, r.Timestamp.Seconds, int64(r.Timestamp.Nanos), int64(len(r.Properties))} {
			d.number(n)
		}
		keys = slices.AppendSeq(keys[:0], maps.Keys(r.Properties))
		slices.Sort(keys)
		for _, key := range keys {
			d.text(key)
			d.text(r.Properties[key])
		}
	}
	sum := sha256.Sum256(d)
	return hex.EncodeToString(sum[:])
}

// typicalResult is about what a result takes in a digester besides its message, in bytes.
const typicalResult = 200

// digester gathers texts, each with its length before it, which keeps neighbours apart, and numbers.
type digester []byte

func (d *digester) text(t string) {
	d.number(int64(len(t)))
	*d = append(*d, t...)
}

func (d *digester) number(n int64) { *d = append(strconv.AppendInt(*d, n, 10), ':') }

// readable replaces what is no UTF-8, as JSON does: the results are sealed as they will be read.
func readable(results []policyreport.Result) {
	for i := range results {
		r := &results[i]
		for _, text := range []*string{&r.Source, &r.Policy, &r.Rule, &r.Message, &r.Category} {
			*text = utf8Only(*text)
		}
		for key, text := range r.Properties {
			if utf8.ValidString(key) && utf8.ValidString(text) {
				continue
			}
			valid := make(map[string]string, len(r.Properties))
			for k, v := range r.Properties {
				valid[utf8Only(k)] = utf8Only(v)
			}
			r.Properties = valid
			break
		}
	}
}

func utf8Only(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
