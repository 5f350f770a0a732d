package rule

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

// require is the validating half: images need digests and records of their verification. It sends no requests. object is the result of the
// mutating half in the same evaluation; nil if there is none.
func (v *imageRule) require(s *scope.Scope, images []imageref.Image, object map[string]any) policy.Yield {
	c := s.Call
	if c.Request.Origin == policy.FromScan && slices.ContainsFunc(v.entries, func(e *imageEntry) bool { return e.verifies }) {
		return policy.Yield{} // a scan verifies the images itself, and records nothing
	}
	if object == nil {
		var err error
		if object, err = subject(s); err != nil {
			return failed("", err)
		}
	}
	var recorded map[string]string // read when an entry needs them
	checked := false
	var skipped []string
	spellings := make([][]string, len(images))
	for i := range images {
		spellings[i] = c.Images.Spellings(images[i].Reference)
	}
	for _, e := range v.entries {
		if !e.verifyDigest && !e.required {
			continue
		}
		for i := range images {
			image := &images[i]
			selected, skips, err := e.selects(c.Meter, image, spellings[i])
			switch {
			case err != nil:
				return failed("", err)
			case !selected:
				continue
			case skips:
				skipped = append(skipped, image.Pinned())
				continue
			}
			checked = true
			if e.verifyDigest && image.Digest == "" {
				return policy.Yield{Status: policy.StatusFail, Message: "missing digest for " + image.Pinned()}
			}
			if !e.required {
				continue
			}
			if recorded == nil {
				all, err := recordsOf(c, object)
				if err != nil {
					return failed("failed to check the records of verified images: ", err)
				}
				recorded = all.of(c.Program, c.Rule.Name)
			}
			if recorded[image.Pinned()] != recordPass {
				return policy.Yield{Status: policy.StatusFail, Message: "unverified image " + image.Pinned()}
			}
		}
	}
	suffix := ""
	if len(skipped) > 0 {
		suffix = ", skipped images: " + strings.Join(skipped, " ")
	}
	switch {
	case checked:
		return policy.Yield{Status: policy.StatusPass, Message: "image verified" + suffix}
	case len(skipped) > 0:
		return policy.Yield{Status: policy.StatusSkip, Message: "image skipped" + suffix}
	}
	return policy.Yield{}
}
