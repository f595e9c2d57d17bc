<?php

declare(strict_types=1);

namespace Plain;

use RuntimeException;

final class DatabaseMissing extends RuntimeException
{
}
