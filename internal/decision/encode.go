package decision

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"ephor.invalid/ephor/internal/value"
)

// AppendJSON appends the record as encoding/json writes it with SetEscapeHTML(false). It does not use reflection: a record has tens of
// results, so reflection would be a large part of the cost.
func (r *Record) AppendJSON(b []byte) ([]byte, error) {
	var err error
	b = value.AppendString(append(b, `{"schema":`...), r.Schema)
	b = append(b, `,"time":"`...)
	if b, err = r.Time.AppendText(b); err != nil {
		return nil, err
	}
	b = strconv.AppendInt(append(b, `","duration":`...), int64(r.Duration), 10)
	b = value.AppendString(append(b, `,"uid":`...), r.UID)
	b = value.AppendString(append(b, `,"webhook":`...), r.Webhook)
	b = member(b, `,"user.name":`, r.User)
	b = members(b, `,"user.groups":`, r.Groups)
	b = value.AppendString(append(b, `,"operation":`...), r.Operation)
	b = member(b, `,"group":`, r.Group)
	b = value.AppendString(append(b, `,"version":`...), r.Version)
	b = value.AppendString(append(b, `,"kind":`...), r.Kind)
	b = member(b, `,"subresource":`, r.Subresource)
	b = member(b, `,"k8s.namespace.name":`, r.Namespace)
	b = member(b, `,"name":`, r.Name)
	b = flag(b, `,"dryRun":true`, r.DryRun)
	b = member(b, `,"k8s.cluster.name":`, r.Cluster)
	b = value.AppendString(append(b, `,"verdict":`...), string(r.Verdict))
	b = strconv.AppendBool(append(b, `,"allowed":`...), r.Allowed)
	b = member(b, `,"message":`, r.Message)
	if math.IsNaN(r.Share) || math.IsInf(r.Share, 0) {
		return nil, fmt.Errorf("the share %v is not a JSON number", r.Share)
	}
	b = value.AppendJSON(append(b, `,"share":`...), r.Share)
	b = member(b, `,"policies":`, r.Policies)
	b = member(b, `,"object":`, r.Object)
	b = member(b, `,"patch":`, r.Patch)
	for i := range r.Rules {
		if i == 0 {
			b = append(b, `,"rules":[`...)
		} else {
			b = append(b, ',')
		}
		b = r.Rules[i].appendJSON(b)
	}
	if len(r.Rules) > 0 {
		b = append(b, ']')
	}
	if r.Request != nil {
		if b, err = r.Request.appendJSON(append(b, `,"request":`...)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (x *Result) appendJSON(b []byte) []byte {
	b = value.AppendString(append(b, `{"policy":`...), x.Policy)
	b = member(b, `,"rule":`, x.Rule)
	b = value.AppendString(append(b, `,"status":`...), x.Status)
	b = value.AppendString(append(b, `,"action":`...), x.Action)
	b = member(b, `,"message":`, x.Message)
	b = member(b, `,"path":`, x.Path)
	b = members(b, `,"exceptions":`, x.Exceptions)
	if x.Duration != 0 {
		b = strconv.AppendInt(append(b, `,"duration":`...), int64(x.Duration), 10)
	}
	return append(b, '}')
}

func (q *Request) appendJSON(b []byte) ([]byte, error) {
	var err error
	b = append(b, '{')
	if q.Group != "" {
		b = append(value.AppendString(append(b, `"group":`...), q.Group), ',')
	}
	b = value.AppendString(append(b, `"version":`...), q.Version)
	b = value.AppendString(append(b, `,"resource":`...), q.Resource)
	if q.Asked != nil {
		if b, err = appendRare(append(b, `,"asked":`...), q.Asked); err != nil {
			return nil, err
		}
	}
	b = flag(b, `,"anonymous":true`, q.Anonymous)
	b = member(b, `,"user.id":`, q.UserUID)
	if len(q.UserExtra) > 0 {
		b = append(b, `,"user.extra":`...)
		next := byte('{')
		for _, key := range slices.Sorted(maps.Keys(q.UserExtra)) {
			b = append(value.AppendString(append(b, next), key), ':')
			b, next = appendList(b, q.UserExtra[key]), ','
		}
		b = append(b, '}')
	}
	b = q.Object.appendJSON(b, `,"object":`)
	b = q.OldObject.appendJSON(b, `,"oldObject":`)
	b = q.Options.appendJSON(b, `,"options":`)
	if q.Lookups != nil {
		if b, err = appendRare(append(b, `,"lookups":`...), q.Lookups); err != nil {
			return nil, err
		}
	}
	b = members(b, `,"cut":`, q.Cut)
	b = flag(b, `,"withheld":true`, q.Withheld)
	return append(b, '}'), nil
}

// appendJSON appends the key and the body; nothing if there is no body.
func (body *Body) appendJSON(b []byte, key string) []byte {
	if body == nil {
		return b
	}
	b = value.AppendString(append(append(b, key...), `{"digest":`...), body.Digest)
	if len(body.Deflated) > 0 {
		b = base64.StdEncoding.AppendEncode(append(b, `,"deflated":"`...), body.Deflated)
		b = append(b, '"')
	}
	return append(b, '}')
}

// appendRare appends a value that few records have.
func appendRare(b []byte, v any) ([]byte, error) {
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// member appends a key and a text that is not empty.
func member(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return value.AppendString(append(b, key...), text)
}

// members appends a key and a list that is not empty.
func members(b []byte, key string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	return appendList(append(b, key...), list)
}

func appendList(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, text := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = value.AppendString(b, text)
	}
	return append(b, ']')
}

// flag appends a member if it is set.
func flag(b []byte, text string, set bool) []byte {
	if !set {
		return b
	}
	return append(b, text...)
}
