<?php
/**
 * @var array<string, array{items: int, from: int, mean: int}> $departments
 * @var string $state
 */
$e = static fn (string $text): string => htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
?>
<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>The corner shop</title>
</head>
<body>
  <h1>The corner shop</h1>
  <p>This page is made by PHP and reads no data.</p>
  <table>
    <tr><th>Department</th><th>Items</th><th>From</th><th>On average</th></tr>
<?php foreach ($departments as $name => $department): ?>
    <tr>
      <td><a href="/<?= rawurlencode($name) ?>"><?= $e(ucfirst($name)) ?></a></td>
      <td><?= $department['items'] ?></td>
      <td><?= number_format($department['from'] / 100, 2) ?></td>
      <td><?= number_format($department['mean'] / 100, 2) ?></td>
    </tr>
<?php endforeach ?>
  </table>
  <script type="application/json" id="state"><?= $state ?></script>
</body>
</html>
