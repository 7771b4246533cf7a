# The service, and nothing else, as a user without rights: docker build .
# Stage `keys` has what makes the keys of the compose file.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/leasesvc ./cmd/leasesvc
RUN CGO_ENABLED=0 go build -trimpath -o /out/nk github.com/nats-io/nkeys/nk
RUN mkdir /out/state

FROM alpine:3.22 AS keys
COPY --from=build /out/nk /usr/local/bin/nk
COPY deploy/keys.sh /usr/local/bin/keys.sh
ENTRYPOINT ["/bin/sh", "/usr/local/bin/keys.sh"]

FROM gcr.io/distroless/static-debian12:nonroot AS leasesvc
COPY --from=build /out/leasesvc /usr/local/bin/leasesvc
# A volume mounted here begins with this directory's owner.
COPY --from=build --chown=65532:65532 /out/state /var/lib/leasesvc
USER 65532:65532
EXPOSE 8250
ENTRYPOINT ["/usr/local/bin/leasesvc"]
CMD ["serve", "--config", "/etc/leasesvc/leasesvc.yaml"]
