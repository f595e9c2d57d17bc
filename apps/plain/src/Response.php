<?php

declare(strict_types=1);

namespace Plain;

final class Response
{
    /** @param array<string, string> $headers */
    private function __construct(
        private string $body,
        private int $status,
        private array $headers,
    ) {
    }

    /** @param array<string, string> $headers */
    public static function text(string $body, int $status = 200, array $headers = []): self
    {
        return new self($body, $status, $headers + ['Content-Type' => 'text/plain; charset=utf-8']);
    }

    public static function html(string $body): self
    {
        return new self($body, 200, ['Content-Type' => 'text/html; charset=utf-8']);
    }

    public static function json(mixed $value): self
    {
        return new self(
            json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES) . "\n",
            200,
            ['Content-Type' => 'application/json'],
        );
    }

    public function send(): void
    {
        http_response_code($this->status);
        foreach ($this->headers + ['Cache-Control' => 'no-store'] as $name => $value) {
            header("$name: $value");
        }
        // A length on every response lets the proxy keep the connection and the client see a cut body.
        header('Content-Length: ' . strlen($this->body));
        echo $this->body;
    }
}
