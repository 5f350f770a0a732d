# Ephor's image: the program, certificate authorities, an ordinary user. `make image` makes the same without Docker.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
ARG VERSION=devel
ARG COMMIT=unknown
ARG TIME=1970-01-01T00:00:00Z
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -tags grpcnotrace -buildvcs=false -trimpath -ldflags "-s -w \
      -X ephor.invalid/ephor/internal/cli.version=$VERSION \
      -X ephor.invalid/ephor/internal/cli.commit=$COMMIT \
      -X ephor.invalid/ephor/internal/cli.buildTime=$TIME" -o /out/ephor ./cmd/ephor

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ephor /ephor
USER 65532:65532
ENTRYPOINT ["/ephor"]
