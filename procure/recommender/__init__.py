"""Which package should we buy, and how sure is that?"""
