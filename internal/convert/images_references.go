package convert

import (
	"regexp"
	"slices"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/wildcard"
)

// references selects the images of an entry; it returns nil if the entry selects all. Globs select what imageReferences do. To exclude
// some images takes an expression.
func (c *converter) references(e *kyvernov1.ImageVerification, path string) []any {
	about := trimmed(e.ImageReferences)
	if len(e.SkipImageReferences) > 0 {
		if all := c.selects(e, path); all != yes {
			return []any{map[string]any{"expression": all.text}}
		}
		return nil
	}
	if slices.Contains(about, "*") {
		return nil
	}
	out := make([]any, len(about))
	for i, p := range about {
		out[i] = map[string]any{"glob": strings.NewReplacer(`\`, `\\`, `[`, `\[`, `{`, `\{`).Replace(p)}
	}
	return out
}

// selects returns the condition that an entry selects the image ref. It must not hold for another spelling of an image that the entry skips.
func (c *converter) selects(e *kyvernov1.ImageVerification, path string) expr {
	about := trimmed(e.ImageReferences)
	everything := slices.Contains(about, "*")
	var skipped []string
	for _, p := range trimmed(e.SkipImageReferences) {
		switch host, _, _ := strings.Cut(p, "/"); {
		case anyHost(host):
			skipped = append(skipped, p)
		case !wildcard.Has(host) && !imageref.IsRegistry(host): // it matches no image: they have registries
		case wildcard.Has(host) || imageref.CanonicalRegistry(host) != host || host == imageref.DefaultRegistry:
			c.refuse(path+".skipImageReferences", "the pattern "+p+" is not converted: it exempts only some spellings of an image",
				"begin it with a registry in lower case, other than docker.io")
		default:
			skipped = append(skipped, p)
		}
	}
	if everything && len(skipped) == 0 {
		return yes
	}
	const name, pinned = "image(ref).registry() + '/' + image(ref).repository()", "n + image(ref).identifierWithSeparator()"
	all := yes
	if !everything {
		var forms []string
		for _, p := range about {
			if host, _, ok := strings.Cut(p, "/"); !namesRegistry(p) && !(ok && anyHost(host)) {
				c.refuse(path+".imageReferences", "the pattern "+p+" is not converted in this place: it names no registry",
					"begin it with a registry without wildcards")
				return yes
			}
			for _, form := range imageref.Patterns(p, "*?") {
				if made := anySpelling(form); !slices.Contains(forms, made) {
					forms = append(forms, made)
				}
			}
		}
		tagged := func(tag string) string {
			return "image(ref).identifier() == image(ref).digest() ? n : n + ':' + image(ref)." + tag
		}
		all = member("[" + pinned + ", " + tagged("tag()") + ", " + tagged("identifier()") + ", image(ref).tag() == 'latest' ? n : " + pinned + "]" +
			".exists(t, t.matches(" + text("^(?:"+strings.Join(forms, "|")+")$") + "))")
	}
	if len(skipped) > 0 {
		for i, p := range skipped {
			skipped[i] = wildcardExpression(p)
		}
		all = and(all, not(member("("+pinned+").matches("+text("^(?:"+strings.Join(skipped, "|")+")$")+")")))
	}
	return member("["+name+"]").macro("exists", "n", all)
}

// namesRegistry reports whether a pattern begins with a registry without wildcards.
func namesRegistry(pattern string) bool {
	host, _, ok := strings.Cut(pattern, "/")
	return ok && imageref.IsRegistry(host) && !wildcard.Has(host)
}

// anyHost reports whether the beginning of a pattern has wildcards, and treats both names of Docker Hub alike.
func anyHost(host string) bool {
	return wildcard.Has(host) && strings.ToLower(host) == host && wildcard.Match(host, imageref.DefaultRegistry) == wildcard.Match(host, "index."+imageref.DefaultRegistry)
}

// anySpelling returns a regular expression for the images of a pattern with a registry, in the spelling of the image library and with the
// registry in capital letters or with the default port.
func anySpelling(pattern string) string {
	host, path, _ := strings.Cut(pattern, "/")
	if anyHost(host) {
		return "(?i:" + wildcardExpression(host) + ")(?::0*443)?/" + wildcardExpression(path)
	}
	if host = imageref.CanonicalRegistry(host); host == imageref.DefaultRegistry {
		host = "index.docker.io"
		if !strings.Contains(path, "/") {
			return regexp.QuoteMeta(host) + "/(?:library/)?" + wildcardExpression(path)
		}
	}
	port := "(?::0*443)?"
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], ":0*"+host[i+1:]
	}
	return "(?i:" + regexp.QuoteMeta(host) + ")" + port + "/" + wildcardExpression(path)
}

// wildcardExpression returns the regular expression for a pattern with wildcards.
func wildcardExpression(pattern string) string {
	return strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
}

func trimmed(in []string) []string {
	out := make([]string, len(in))
	for i, p := range in {
		out[i] = strings.TrimSpace(p)
	}
	return out
}
