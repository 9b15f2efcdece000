import { describe, expect, it } from '@jest/globals'
import { parseObjectList } from '../../../servers/storage/s3/s3-object-store.js'

const list = (content: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${content}</ListBucketResult>\n`
const last = '<IsTruncated>false</IsTruncated>'
const object = (key: string): string => `<Contents><Key>${key}</Key><Size>5</Size></Contents>`

describe('parseObjectList', () => {
  it('reads keys, and the token of the next page, wherever they stand', () => {
    const head = '<Name>content</Name><Prefix>vault/</Prefix><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>'
    const owner = '<Contents><Owner><ID>1</ID></Owner><Key>vault/b</Key></Contents>'
    const text = list(`${head}${object('vault/a')}${owner}<NextContinuationToken>t+/=&amp;</NextContinuationToken>`)
    expect(parseObjectList(text)).toEqual({ keys: ['vault/a', 'vault/b'], continuationToken: 't+/=&' })
  })

  it('reads an empty list, with spaces around elements', () => {
    expect(parseObjectList(list(`\n  ${last}\n`))).toEqual({ keys: [] })
  })

  it('decodes entities once', () => {
    expect(parseObjectList(list(last + object('&lt;&gt;&quot;&apos;&amp;lt;&#233;&#xE9;&#x1F4A5;'))).keys).toEqual([
      '<>"\'&lt;éé💥'
    ])
  })

  it.each([
    ['nothing', ''],
    ['a page', '<html></html>'],
    ['another answer', '<Error><Code>SlowDown</Code></Error>'],
    ['a list that was cut', list(last + object('a')).slice(0, -5)],
    ['an object without end', list(`${last}<Contents><Key>a</Key>`)],
    ['an object without key', list(`${last}<Contents><Size>5</Size></Contents>`)],
    ['an empty key', list(last + object(''))],
    ['two keys', list(last + object('a</Key><Key>b'))],
    ['elements in a key', list(last + object('<b>a</b>'))],
    ['no word about more', list(object('a'))],
    ['another word about more', list('<IsTruncated>maybe</IsTruncated>')],
    ['more without a token', list('<IsTruncated>true</IsTruncated>')],
    ['a comment', list(`${last}<!-- ${object('a')} -->`)],
    ['CDATA', list(last + object('<![CDATA[a]]>'))],
    ['an entity of its own', list(last + object('&own;'))],
    ['an entity without end', list(last + object('a&amp'))],
    ['a character that is none', list(last + object('&#x110000;'))]
  ])('refuses %s', (_what, text) => {
    expect(() => parseObjectList(text)).toThrow('Object storage answered no list of objects')
  })
})
