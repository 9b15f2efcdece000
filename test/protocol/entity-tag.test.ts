import { describe, expect, it } from '@jest/globals'
import { listsEntityTag, normalizeEntityTag } from '../../src/protocol/entity-tag.js'

const TAG = `"${'a'.repeat(42)}A"`

describe('normalizeEntityTag', () => {
  it.each(['gzip', 'br', 'zstd', 'deflate'])('removes W/ and the suffix -%s', (suffix) => {
    const marked = TAG.replace(/"$/, `-${suffix}"`)
    expect([TAG, `W/${TAG}`, marked, ` W/${marked}`].map(normalizeEntityTag)).toEqual([TAG, TAG, TAG, TAG])
  })

  it.each(['"a-gzip-b"', '"-gzip2"', '"W/a"', '"a-GZIP"', '', 'gzip'])('does not change %s', (tag) => {
    expect(normalizeEntityTag(tag)).toBe(tag)
  })
})

describe('listsEntityTag', () => {
  it.each([TAG, `W/${TAG}`, `"b" , ${TAG}`, '*', `"b",W/${TAG.replace(/"$/, '-zstd"')}`])(
    'returns true for %s',
    (header) => expect(listsEntityTag(header, TAG)).toBe(true)
  )

  it.each([undefined, '', '"b"', TAG.slice(1, -1), [TAG]])('returns false for %j', (header) =>
    expect(listsEntityTag(header, TAG)).toBe(false)
  )
})
