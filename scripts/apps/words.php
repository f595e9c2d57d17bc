<?php
// Text for the content of the applications: the same words on every machine.

/** A text of so many words, another one for each seed. */
function words(int $seed, int $count): string
{
    $known = explode(' ', 'the a river town harbour bridge market morning evening garden window letter road station '
        . 'mountain winter summer bread table light stone water paper silver wooden quiet early narrow yellow old new '
        . 'walks opens carries writes finds leaves builds paints follows remembers under over beside between after '
        . 'before toward with without and but while because slowly often never again');
    mt_srand($seed);
    $text = [];
    for ($i = 0; $i < $count; $i++) {
        $text[] = $known[mt_rand(0, count($known) - 1)];
        if ($i % 12 === 11) {
            $text[$i] .= '.';
        }
    }
    return ucfirst(implode(' ', $text)) . '.';
}

/** A title of three or four words with the number in it, so that no two are the same. */
function title(int $seed): string
{
    return ucfirst(rtrim(words($seed, 3), '.')) . ' ' . $seed;
}
