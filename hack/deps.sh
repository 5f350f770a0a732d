#!/usr/bin/env bash
# Prints the modules that bin/ephor links, sorted: path, version, how many of its packages are linked, and what imports
# it (our packages, or else the module that brings it). It does not query a database of vulnerabilities.
# `make deps` runs it with the build tags of the program.
set -euo pipefail
cd "$(dirname "$0")/.."

# One line per linked package: its path, module, version, and what it imports. Packages of the standard library have no module.
go list -deps -f '{{if not .Standard}}{{.ImportPath}} {{.Module.Path}} {{with .Module.Replace}}{{.Path}}@{{.Version}}{{else}}{{or .Module.Version "-"}}{{end}} {{join .Imports ","}}{{end}}' ./cmd/ephor |
  awk '
    { module[$1] = $2; version[$2] = $3; packages[$2]++; imports[$1] = $4 }
    NR == 1 || $3 == "-" { if ($3 == "-") own = $2 }
    END {
      for (p in imports) {
        n = split(imports[p], to, ",")
        for (i = 1; i <= n; i++) {
          m = module[to[i]]
          if (m == "" || m == module[p]) continue
          who = module[p]
          if (who == own) { who = p; sub(own "/", "", who); if (!((m, who) in seen)) ours[m] = ours[m] " " who }
          else if (!((m, who) in seen)) others[m] = others[m] " " who
          seen[m, who] = 1
        }
      }
      for (m in version) {
        if (m == own) continue
        n = split(ours[m] != "" ? ours[m] : others[m], list, " ")
        for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j-1] > list[j]; j--) { t = list[j]; list[j] = list[j-1]; list[j-1] = t }
        text = list[1]
        for (i = 2; i <= n && i <= 3; i++) text = text ", " list[i]
        if (n > 3) text = text " and " (n - 3) " more"
        printf "%s\t%s\t%d\t%s\n", m, version[m], packages[m], text
      }
    }' | LC_ALL=C sort | awk -F'\t' 'BEGIN { printf "%-68s %-40s %8s  %s\n", "MODULE", "VERSION", "PACKAGES", "IMPORTED BY" } { printf "%-68s %-40s %8d  %s\n", $1, $2, $3, $4 }'
